// Package workflow reads the workflow files of GitHub Actions and compiles their jobs to plans.
//
// Parse checks a whole text and reports every mistake at once, each with its place. What comes of it is typed: a Workflow, its Jobs, the
// events that start it. What only a run can know is computed on the way: whether the workflow takes an event (On.Matches), whether a job
// runs (Job.Runs), its legs (Job.Legs), what it runs on (Job.Settings), and last the steps of one leg as a plan (Compile).
//
// The package runs nothing and reads no files but the text it is given. A feature that cannot be done here is said in a note, or refused.
// Sources of the format: GitHub's workflow syntax reference, and its documents on contexts, events and reusable workflows.
package workflow

import (
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/value"
)

// Contexts are GitHub's contexts by name ("github", "needs", "inputs", "vars", "secrets", …), each a struct as GitHub documents it. A name
// that is missing is an empty context.
type Contexts map[string]value.Value

// Workflow is what a workflow file says.
type Workflow struct {
	File        string // what diagnostics call the file
	Name        string // as written; empty where it has none: GitHub then shows the file's path
	Description string
	On          On
	Permissions *Permissions // of all jobs that do not say their own; nil is what the repository's settings say
	CacheMode   CacheMode    // of all jobs that do not say their own
	Jobs        []*Job       // in the order of the text
	// Notes tell what the file asks for that is not done here. Each has a place, a message and a hint.
	Notes diag.List

	parsed parsed
}

// CacheMode is what a job may do with caches.
type CacheMode string

// The values of CacheMode. The empty one is reading and writing.
const (
	CacheRead      CacheMode = "read"
	CacheWrite     CacheMode = "write" // reads as well
	CacheWriteOnly CacheMode = "write-only"
	CacheNone      CacheMode = "none"
)

// Concurrency is a group of runs, or of jobs, that are not under way at the same time.
type Concurrency struct {
	Group  string
	Cancel bool // what is under way makes room for what comes
	Queue  bool // all that wait are kept, in order; else the newest takes the place of the one before it
}

// Job is one job of a workflow.
type Job struct {
	ID    string
	Needs []string // the ids of the jobs that it needs, as the jobs are named
	Call  *Call    // what it calls; nil for a job with steps
	Span  diag.Span
	// CacheMode is the job's, or else the workflow's.
	CacheMode CacheMode

	permissions *Permissions
	workflow    *Workflow
	node        jobNode
	compiled    compiled
}

// Call is a reusable workflow that a job calls. Who runs the job loads its text, parses it, and asks Workflow.AsCalled.
type Call struct {
	Uses string // as written
	// Local says that Path is in the repository, and at the commit, of the file that calls. Both ./ and $/ mean that.
	Local      bool
	Repository string // "owner/name" where it is not local
	Ref        string // a branch, tag or commit where it is not local
	Path       string // of the file in its repository: ".github/workflows/build.yml"
	Inherit    bool   // secrets: inherit
	Span       diag.Span
}

// MaxCallDepth is how many workflows may call each other in a row, the first one included.
const MaxCallDepth = 10

// MaxLegs is how many legs a matrix may have.
const MaxLegs = 256

// Settings are what a leg's job-level keys come to.
type Settings struct {
	RunsOn          RunsOn
	Container       *Container // nil runs the steps where the job is
	Services        []Service  // in the order of the text
	TimeoutMinutes  float64    // DefaultTimeoutMinutes where the job does not say
	ContinueOnError bool
	Concurrency     *Concurrency // nil is none
	Environment     *Environment // nil is none
	Permissions     *Permissions // never nil
	CacheMode       CacheMode
}

// DefaultTimeoutMinutes is how long a job may take when it does not say.
const DefaultTimeoutMinutes = 360

// RunsOn is what a job asks of its machine.
type RunsOn struct {
	Group  string
	Labels []string // all of them
}

// Container is a container that a job runs in, or a service.
type Container struct {
	Image       string // a "docker://" before it is cut off
	Username    string
	Password    value.Value // a string, marked sensitive; null is none
	Env         map[string]value.Value
	Ports       []string // "8080:80", "80/udp"
	Volumes     []string
	Options     string // of docker create
	Entrypoint  string // of a service; empty is the image's
	Command     string // of a service; empty is the image's
	Credentials bool   // there is a user name or a password
	Span        diag.Span
}

// Service is a container beside a job, known under its ID in the job's network.
type Service struct {
	ID string
	Container
}

// Environment is what a job deploys to.
type Environment struct {
	Name string
	// Deployment is false where the job uses the environment's secrets and variables without deploying.
	Deployment bool
	// HasURL says that the plan gives the environment's address as the output OutputEnvironmentURL.
	HasURL bool
}

// OutputEnvironmentURL is the output of a compiled job that holds the address of its environment. No output of a workflow can have this name.
const OutputEnvironmentURL = "environment.url"
