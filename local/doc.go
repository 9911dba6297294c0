// Package local runs the jobs of a pipeline on this machine. It knows no language: a frontend (local/gitlab, local/github) reads a file and says
// what its jobs are; this package runs them, and everything that is the same for all of them stands here.
//
//	frontend                                             runner
//
//	Job: Decide, Units, Concluded          <────────>    Schedule    order, slots, concurrency groups, calls
//	Unit: Admit, Run                       <────────>        │
//	Work: Place    level, image, services   ────────>        │
//	Work: Steps    plan, variables,                       Runner.Attempt   environment, files in, steps, trace, files out
//	               files to bring           ────────>        │
//	Work: View, Ended, Fetch               <────────         │   Outcome: how the run ended, what its steps produced
//	                                                         v
//	                                                      Observer, store: what a person sees, and what is kept
//
// What one machine cannot do is told to the Observer, supplied by settings, or refused before the job starts. Nothing that a job asks for is
// dropped silently.
package local
