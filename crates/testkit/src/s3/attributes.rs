//! What a writer says about an object besides its bytes.

use s3s::dto::{
    CopyObjectInput, CreateMultipartUploadInput, GetObjectOutput, HeadObjectOutput, Metadata, PutObjectInput,
    Timestamp,
};

/// Content headers and user metadata, kept and given back unchanged.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    cache_control: Option<String>,
    content_disposition: Option<String>,
    content_encoding: Option<String>,
    content_language: Option<String>,
    content_type: Option<String>,
    expires: Option<Timestamp>,
    metadata: Option<Metadata>,
}

/// The request and answer types share these fields by name, not by trait.
macro_rules! take_from {
    ($input:expr) => {
        Attributes {
            cache_control: $input.cache_control.take(),
            content_disposition: $input.content_disposition.take(),
            content_encoding: $input.content_encoding.take().and_then(|value| stored_encoding(&value)),
            content_language: $input.content_language.take(),
            content_type: $input.content_type.take(),
            expires: $input.expires.take(),
            metadata: $input.metadata.take(),
        }
    };
}

macro_rules! write_to {
    ($attributes:expr, $output:expr) => {{
        $output.cache_control.clone_from(&$attributes.cache_control);
        $output.content_disposition.clone_from(&$attributes.content_disposition);
        $output.content_encoding.clone_from(&$attributes.content_encoding);
        $output.content_language.clone_from(&$attributes.content_language);
        $output.content_type.clone_from(&$attributes.content_type);
        $output.expires.clone_from(&$attributes.expires);
        $output.metadata.clone_from(&$attributes.metadata);
    }};
}

impl Attributes {
    pub(super) fn of_put(input: &mut PutObjectInput) -> Self {
        take_from!(input)
    }

    pub(super) fn of_copy(input: &mut CopyObjectInput) -> Self {
        take_from!(input)
    }

    pub(super) fn of_multipart(input: &mut CreateMultipartUploadInput) -> Self {
        take_from!(input)
    }

    pub(super) fn write_to_get(&self, output: &mut GetObjectOutput) {
        write_to!(self, output);
    }

    pub(super) fn write_to_head(&self, output: &mut HeadObjectOutput) {
        write_to!(self, output);
    }
}

/// `aws-chunked` describes the request body, not the object, so it is not kept.
fn stored_encoding(header: &str) -> Option<String> {
    let kept: Vec<&str> = header
        .split(',')
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && *coding != "aws-chunked")
        .collect();
    (!kept.is_empty()).then(|| kept.join(","))
}
