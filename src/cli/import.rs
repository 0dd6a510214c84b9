//! `reflex registry import MANIFEST…`: graphs as runtimes describe them, as a file of the registry.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Output;
use crate::cli::table::clean;
use crate::cli::validate::{counted, files_of, render};
use crate::registry::import::{Imported, Note, complete, differences, merge};
use crate::registry::manifest::{self, MANIFEST_BYTES_MAX};
use crate::registry::{Graph, Loaded, Problem, Registry, SourceFile, diff, load, load_and_lint, write};

/// How a file of ours begins: nothing else is ever written over.
const HEAD: &str = "# Written by `reflex registry import`";
const REST: &str = ": import again to change what a manifest says;\n# what it does not say of a graph or a node \
                    (criticality, fallback, compensation, …) can be added here, and stays.\n";

/// Arguments of `reflex registry import`.
#[derive(Debug, clap::Args)]
#[allow(clippy::doc_markdown, reason = "these comments are shown to users as they are")]
pub struct Args {
    /// Manifests of graphs, JSON; `-` is standard input
    #[arg(required = true)]
    manifests: Vec<PathBuf>,
    /// The registry file to write, best in the folder of --registry; only one that this verb wrote is written over
    /// [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Imports.
///
/// # Errors
/// Exit 66 for a file that cannot be read, 65 for manifests that are not in order, or that say something else of a graph
/// than another file of the folder, 78 for a registry that is not in order, 64 for a file that this verb did not write.
/// Exit 1 where the file is written and the folder with it is not in order.
pub fn run(args: &Args, resolved: &Resolved, out: &mut dyn Write) -> Result<Exit, Failure> {
    let manifests = args.manifests.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let refused = |problems: Vec<Problem>| {
        let message = format!("{}{}", render(&problems, &manifests), counted(&problems));
        Failure::new(Exit::BadInput, message)
    };
    let graphs = manifest::read(&manifests).map_err(refused)?;
    let mut names: Vec<String> =
        graphs.iter().map(|graph| format!("{}:{}", graph.value.name, graph.value.version)).collect();
    let before = Before::read(Path::new(&resolved.settings.registry), args.out.as_deref())?;
    let (mut merged, mut notes) = merge(graphs, &manifests, before.loaded.as_ref()).map_err(refused)?;
    if let Some(known) = &before.loaded {
        complete(&mut merged, known, &before.own, &mut notes);
    }
    let unchanged = before.unchanged(&names, &merged);
    if args.out.is_some() {
        before.contradicted(&names, &merged, &notes)?;
        // What another file says stays there alone.
        merged.retain(|name, _| before.own.contains(name) || !unchanged.iter().any(|(same, _)| same == name));
        names.retain(|name| !unchanged.iter().any(|(same, _)| same == name));
    }
    let text = format!("{HEAD}{REST}{}", write::graphs(merged.values()));
    let written = checked(&text)?;
    let changes = diff(Some(&before.of(&written)), &written);
    let Some(path) = &args.out else {
        tell(&notes, &changes);
        for (name, file) in &unchanged {
            eprintln!("{}", clean(&format!("unchanged: {name} ({file})")));
        }
        write!(out, "{text}").map_err(unwritable)?;
        return Ok(Exit::Done);
    };
    let after = if names.is_empty() {
        before.files.clone()
    } else {
        replace(path, &text)
            .map_err(|error| Failure::new(Exit::NoInput, format_args!("{}: {error}", path.display())))?;
        before.after(path, text)
    };
    let problems = match load_and_lint(&after) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    };
    let (names, unchanged, notes, changes) = (&names, &unchanged, &notes, &changes);
    let told = Told { path, names, unchanged, notes, changes, problems: &problems, files: &after };
    told.show(resolved.settings.output, out)?;
    Ok(if problems.iter().any(Problem::is_error) { Exit::Found } else { Exit::Done })
}

fn read(path: &Path) -> Result<SourceFile, Failure> {
    let name = path.display().to_string();
    let unreadable = |error| Failure::new(Exit::NoInput, format_args!("{name}: {error}"));
    let mut bytes = Vec::new();
    // One byte more than is taken, so that a longer one is seen to be.
    let most = MANIFEST_BYTES_MAX as u64 + 1;
    if name == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)).map_err(unreadable)?;
    }
    Ok(SourceFile { name, text: String::from_utf8_lossy(&bytes).into_owned() })
}

/// What the registry says already.
struct Before {
    files: Vec<SourceFile>,
    loaded: Option<Loaded>,
    /// The graphs of the file that will be written over.
    own: Vec<String>,
}

impl Before {
    fn read(folder: &Path, out: Option<&Path>) -> Result<Self, Failure> {
        let mut files = if folder.is_dir() { files_of(folder)? } else { Vec::new() };
        let mut own = Vec::new();
        if let Some(out) = out.filter(|out| out.exists()) {
            let unreadable = |error| Failure::new(Exit::NoInput, format_args!("{}: {error}", out.display()));
            let text = String::from_utf8_lossy(&fs::read(out).map_err(unreadable)?).into_owned();
            if !text.starts_with(HEAD) && !text.trim().is_empty() {
                let message = format_args!(
                    "{}: not written by this verb, and never written over: name another --out",
                    out.display()
                );
                return Err(Failure::new(Exit::Usage, message));
            }
            files.retain(|file| !same(Path::new(&file.name), out));
            let mine = SourceFile { name: out.display().to_string(), text };
            let loaded =
                load(std::slice::from_ref(&mine)).map_err(|problems| broken(&problems, std::slice::from_ref(&mine)))?;
            own = loaded.registry.graphs.into_keys().collect();
            files.push(mine);
        }
        let loaded = if files.is_empty() { None } else { Some(load(&files).map_err(|it| broken(&it, &files))?) };
        Ok(Self { files, loaded, own })
    }

    /// The file that has a graph already.
    fn file_of(&self, schema_ref: &str) -> Option<&str> {
        let origins = &self.loaded.as_ref()?.origins;
        let file = origins.files.get(origins.graphs.get(schema_ref)?.file)?;
        Some(&file.name)
    }

    /// Those that stand in a file as they would be written, with the file.
    fn unchanged(&self, names: &[String], merged: &BTreeMap<String, Imported>) -> Vec<(String, String)> {
        let is_same = |name: &str| {
            self.loaded.as_ref().zip(merged.get(name)).is_some_and(|(known, it)| differences(it, known).is_empty())
        };
        let there = names.iter().filter_map(|name| Some((name.clone(), self.file_of(name)?.to_owned())));
        there.filter(|(name, _)| is_same(name)).collect()
    }

    /// Refuses a graph that another file has, and that would be written otherwise: the folder would have it twice.
    fn contradicted(
        &self,
        names: &[String],
        merged: &BTreeMap<String, Imported>,
        notes: &[Note],
    ) -> Result<(), Failure> {
        let Some(known) = &self.loaded else { return Ok(()) };
        let mut told = Vec::new();
        for name in names.iter().filter(|name| !self.own.contains(name)) {
            let changes = merged.get(name).map(|it| differences(it, known)).unwrap_or_default();
            let Some(file) = self.file_of(name).filter(|_| !changes.is_empty()) else { continue };
            told.push(format!("{name} stands in {file} already, and the manifest says otherwise:"));
            told.extend(changes.iter().map(|change| format!("  {change}")));
        }
        if told.is_empty() {
            return Ok(());
        }
        told.extend(notes.iter().map(|note| format!("note: {note}")));
        let lines: Vec<String> = told.iter().map(|line| clean(line)).collect();
        let message = format_args!(
            "{}\nnothing was written. Either put the [[graph]] that this prints without --out in the place of the one there, \
             or take that one out and import again: what only it says is lost then",
            lines.join("\n")
        );
        Err(Failure::new(Exit::BadInput, message))
    }

    /// The graphs as they were, of those that are written now.
    fn of(&self, written: &Registry) -> Registry {
        let graphs = self.loaded.iter().flat_map(|loaded| &loaded.registry.graphs);
        let graphs: BTreeMap<String, Graph> = graphs
            .filter(|(name, _)| written.graphs.contains_key(*name))
            .map(|(name, graph)| (name.clone(), graph.clone()))
            .collect();
        Registry { graphs, ..Registry::default() }
    }

    /// The files as they are now.
    fn after(&self, out: &Path, text: String) -> Vec<SourceFile> {
        let others = self.files.iter().filter(|file| !same(Path::new(&file.name), out)).cloned();
        others.chain([SourceFile { name: out.display().to_string(), text }]).collect()
    }
}

fn broken(problems: &[Problem], files: &[SourceFile]) -> Failure {
    let is_twice = problems.iter().any(|problem| problem.code == "duplicate");
    let way_out = if is_twice { "; what stands twice must be taken out of one of the two files" } else { "" };
    let message = format!("{}{}", render(problems, files), counted(problems));
    Failure::new(Exit::Configuration, format_args!("{}{way_out}", message.trim_end()))
}

fn same(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// The registry of the text alone: what is written can be read, or it is not written.
fn checked(text: &str) -> Result<Registry, Failure> {
    let file = SourceFile { name: "what would be written".to_owned(), text: text.to_owned() };
    match load(std::slice::from_ref(&file)) {
        Ok(loaded) => Ok(Registry { version: String::new(), ..loaded.registry }),
        Err(problems) => Err(Failure::new(Exit::Bug, render(&problems, &[file]))),
    }
}

/// Whole or not at all.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = path.with_file_name(format!(".{name}.part"));
    fs::write(&beside, text)?;
    fs::rename(&beside, path).inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn tell(notes: &[Note], changes: &[diff::Change]) {
    for note in notes {
        eprintln!("note: {}", clean(&note.to_string()));
    }
    for change in changes {
        eprintln!("{}", clean(&change.to_string()));
    }
}

/// What was done.
struct Told<'a> {
    path: &'a Path,
    names: &'a [String],
    unchanged: &'a [(String, String)],
    notes: &'a [Note],
    changes: &'a [diff::Change],
    problems: &'a [Problem],
    files: &'a [SourceFile],
}

impl Told<'_> {
    fn show(&self, output: Output, out: &mut dyn Write) -> Result<(), Failure> {
        let Self { path, names, unchanged, notes, changes, problems, files } = self;
        let path = path.display().to_string();
        let written = if output == Output::Table {
            tell(notes, changes);
            if !problems.is_empty() {
                eprintln!("{}{}", render(problems, files), counted(problems));
            }
            let imported = match *names {
                [] => Ok(()),
                names => writeln!(out, "{} graphs imported into {path}: {}", names.len(), clean(&names.join(", "))),
            };
            let mut same = unchanged.iter();
            imported.and_then(|()| {
                same.try_for_each(|(name, file)| writeln!(out, "{}", clean(&format!("unchanged: {name} ({file})"))))
            })
        } else {
            let same: Vec<_> = unchanged.iter().map(|(name, file)| json!({ "graph": name, "file": file })).collect();
            let report = json!({
                "out": path, "graphs": names, "unchanged": same, "notes": notes, "changes": changes, "problems": problems,
            });
            writeln!(out, "{report}")
        };
        written.map_err(unwritable)
    }
}
