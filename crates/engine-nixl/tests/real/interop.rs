use std::time::Instant;

use kvtier_core::{Direction, TransferEngine};
use kvtier_engine_object_store::ObjectStoreEngine;
use kvtier_testkit::{S3Options, S3Server};
use tokio::runtime::Handle;

use crate::rig::{MODES, PATIENCE, Rig, config, pattern};

/// What one engine stored the other loads, byte for byte, under names that clients like to rewrite.
#[tokio::test(flavor = "multi_thread")]
async fn engines_read_each_other() {
    let server = S3Server::start_on_thread(&S3Options::default()).unwrap();
    let names = ["kv/plain.bin", "kv/My Model/モデル=1+2%2F?#&;:@.bin"];
    for (mode, req_checksum) in MODES.into_iter().zip(["req_checksum=required", "req_checksum=supported"]) {
        for bytes in [4097, 1 << 20] {
            let nixl = config(&server, server.endpoint(), &[mode, req_checksum]);
            let mut rig = Rig::new(&nixl, bytes, 4);
            let reference =
                ObjectStoreEngine::s3(&config(&server, server.endpoint(), &[]), Handle::current()).unwrap();
            let mut seed = 0;
            for nixl_stores in [true, false] {
                let (stored, loaded) = ([(names[0], 0), (names[1], 1)], [(names[0], 2), (names[1], 3)]);
                for (_, slot) in stored {
                    seed += 1;
                    rig.fill(slot, &pattern(seed, bytes));
                }
                for (by_nixl, direction, blocks) in
                    [(nixl_stores, Direction::Store, stored), (!nixl_stores, Direction::Load, loaded)]
                {
                    if by_nixl {
                        rig.run(direction, &blocks).await.into_iter().for_each(Result::unwrap);
                        continue;
                    }
                    let batch = blocks.map(|(name, slot)| rig.transfer(direction, name, slot));
                    reference.submit(batch.into());
                    rig.collect(2).await.into_values().for_each(Result::unwrap);
                }
                for (stored, loaded) in [(0, 2), (1, 3)] {
                    assert!(
                        rig.read(stored) == rig.read(loaded),
                        "{mode}, {bytes} bytes, nixl stores {nixl_stores}"
                    );
                }
            }
            reference.close(Instant::now() + PATIENCE).await;
            rig.close(PATIENCE).await;
        }
    }
}
