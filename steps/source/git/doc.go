// Package git fetches components from Git repositories, without the git program.
//
// It speaks Git's own protocol (version 0, which every server knows) over HTTP, HTTPS and SSH, and reads local repositories
// as files. Only what a commit names is used: no hook, no filter, no attribute and no configuration of a repository is ever
// looked at, and there is no transport that could run something. What arrives is addressed by its hash, and every object
// is hashed again on its way into a package, so that neither a server nor a changed file can put in something else.
//
// A revision is, in this order: HEAD; a commit's full name; a tag; a branch; a ref's full name ("refs/heads/main"); the
// beginning of a commit's name, at least seven digits. So a tag wins over a branch of the same name. A short commit is looked
// for among what the server offers, then in its whole history, where it must be the only one.
//
// A repository's mirror in the cache holds the commits that were fetched, each without its history; the next one only costs
// what is new in it. A mirror that turns out to be damaged is thrown away and made again.
//
// Of a commit's tree everything is taken as it is stored: pointers to LFS files stay pointers. Links that lead outside of the
// repository are left out, because they would lead somewhere else on every machine; source.Progress names them. Submodules
// are left out unless Access.Submodules asks for them, and then only from the same host. A file whose name could leave the
// tree, or that could be taken for Git's own, makes the commit unusable.
package git
