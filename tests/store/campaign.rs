//! Damage of every sort to the files of a store.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use reflex::engine::state::store::Kind;

use super::log::{KINDS, Log, SOON, begin, fill, keeper, mix};

const LOG: Log = Log { keys: 3000, value_bytes: 200, end: 9000 };
/// What was written after the damage.
const LATER: Log = Log { end: 9500, ..LOG };

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Where data is: files as long as what was written, not as what was set aside for it.
fn damage(folder: &Path, number: u64) -> String {
    let files: Vec<PathBuf> = files(folder).into_iter().filter(|file| length(file) > 0).collect();
    let largest = files.iter().max_by_key(|file| length(file)).expect("a file").clone();
    let any = files[usize::try_from(mix(number) % files.len() as u64).expect("small")].clone();
    let file = if number.is_multiple_of(2) { &largest } else { &any };
    let open = || OpenOptions::new().read(true).write(true).open(file).expect("opens");
    let data = fs::read(file).expect("read");
    // Files made longer than their content end in zeros.
    let page = data.chunks(4096).rposition(|page| page != &[0; 4096][..page.len()]).unwrap_or(0) * 4096;
    let used = data[page..].iter().take(4096).rposition(|byte| *byte != 0).map_or(1, |last| (page + last) as u64 + 1);
    let at = mix(number ^ 0xabcd) % used;
    let what = match number % 12 {
        0..=2 => {
            let share = [1, 10, 50][usize::try_from(number % 3).expect("small")];
            open().set_len(used - (used * share).div_ceil(100)).expect("truncated");
            format!("truncated by {share} %")
        }
        3..=6 => {
            let byte = data[usize::try_from(at).expect("small")] ^ (1 << (number % 8));
            open().write_all_at(&[byte], at).expect("written");
            format!("bit flipped at {at}")
        }
        7 | 8 => {
            let page = at / 4096 * 4096;
            let zeros = vec![0; usize::try_from((used - page).min(4096)).expect("small")];
            open().write_all_at(&zeros, page).expect("written");
            format!("page of zeros at {page}")
        }
        9 => {
            fs::remove_file(file).expect("removed");
            String::from("removed")
        }
        10 => {
            File::create(file).expect("emptied");
            String::from("emptied")
        }
        _ => {
            let noise: Vec<u8> = (0..512).map(|byte| mix(number ^ byte).to_le_bytes()[0]).collect();
            open().write_all_at(&noise, at).expect("written");
            format!("noise at {at}")
        }
    };
    format!("{}: {what}", file.display())
}

fn length(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |metadata| metadata.len())
}

/// Starts twice over a damaged store: both times the state is that of the whole changelog, and the second time the store
/// is whole again.
fn assert_heals(kind: Kind, folder: &Path, what: &str) -> bool {
    let first = keeper(kind, folder, LATER);
    let (state, is_stored) = begin(&first, LATER, 0);
    assert!(state == LATER.state(LATER.end), "{kind:?}: {what}");
    let started = std::time::Instant::now();
    while first.counts().written == 0 {
        assert!(started.elapsed() < SOON, "{kind:?}: {what}: nothing is written: {:?}", first.counts());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(first.close(None, SOON), "{kind:?}: {what}: not closed");
    drop(first);
    let second = keeper(kind, folder, LATER);
    let (state, is_whole) = begin(&second, LATER, 0);
    assert!(state == LATER.state(LATER.end), "{kind:?}: {what}: the second time");
    assert!(is_whole, "{kind:?}: {what}: not whole again");
    is_stored
}

fn campaign(kind: Kind, mutations: u64) {
    let base = tempfile::tempdir().expect("a folder");
    fill(kind, base.path(), LOG, 0);
    let mut survived = 0;
    for number in 0..mutations {
        let folder = tempfile::tempdir().expect("a folder");
        copy(base.path(), folder.path());
        let what = format!("{number}: {}", damage(folder.path(), number));
        survived += u64::from(assert_heals(kind, folder.path(), &what));
    }
    // Most damage is noticed; some is in what no reader needs.
    assert!(survived < mutations, "nothing was ever noticed");
}

#[test]
fn sled_damaged_in_sixty_ways_is_noticed_or_harmless() {
    campaign(Kind::Sled, 60);
}

#[test]
fn fjall_damaged_in_sixty_ways_is_noticed_or_harmless() {
    campaign(Kind::Fjall, 60);
}

#[test]
fn an_older_copy_is_a_longer_tail() {
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        fill(kind, folder.path(), Log { end: 4000, ..LOG }, 0);
        assert!(assert_heals(kind, folder.path(), "an older copy"), "{kind:?}: it is used");
    }
}

#[test]
fn the_store_of_another_partition_is_set_aside() {
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        fill(kind, folder.path(), LOG, 1);
        let place = folder.path().join("session");
        fs::rename(place.join("1"), place.join("0")).expect("moved");
        assert!(!assert_heals(kind, folder.path(), "a foreign store"), "{kind:?}: it is not used");
    }
}

#[test]
fn an_empty_folder_and_a_file_in_its_place_are_no_obstacle() {
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("session/0").join(kind.name());
        fs::create_dir_all(&place).expect("a folder");
        assert!(!assert_heals(kind, folder.path(), "an empty folder"));
        fs::remove_dir_all(&place).expect("removed");
        fs::write(&place, b"no store").expect("written");
        assert!(!assert_heals(kind, folder.path(), "a file in its place"));
    }
}
