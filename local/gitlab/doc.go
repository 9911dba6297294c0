// Package gitlab runs the jobs of a .gitlab-ci.yml on this machine, as GitLab would.
//
//	Options ── Open ──> Project: repository, settings, definition, pipeline          (decides, runs nothing)
//	                       │ Select: jobs by name, with or without what they need
//	                       │ Compile: one job as steps of the catalog
//	                       '── Run ──> schedule ── job ── attempt ──> executor.Prepare ── steps/service/client
//	                                                                     │
//	                                                    store: artifacts, caches, releases, pages, traces in .rung
//
// What one machine cannot do is told to the Observer, supplied by settings, or refused before the job starts. Nothing that a job says is
// left out without a word.
package gitlab
