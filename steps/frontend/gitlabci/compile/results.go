package compile

// Results are what the steps of a job leave where caches and artifacts are kept. Whoever takes them out of an environment decides by
// these what they are and where they go, and not by what the environment reports. Step is the name of the step in the plan's own list.
type Results struct {
	// Restored are the keys of the caches that are looked for, in order, each once.
	Restored []string
	Saved    []SavedCache
	Uploads  []Upload
	Release  *RecordedRelease // nil for a job without one
	Pages    *PublishedPages  // nil for a job that publishes none
}

// SavedCache is a cache that a step saves.
type SavedCache struct{ Step, Key string }

// Upload is an archive or a report that a step leaves in Artifact.Location.
type Upload struct {
	Step     string
	Name     string // as the job says; empty is the default
	Type     string // archive, junit, dotenv, …
	Format   string // zip, gzip, raw
	Metadata bool   // a description is beside the archive
}

// RecordedRelease is a release that a step records in Release.Record.
type RecordedRelease struct{ Step, Tag string }

// PublishedPages are pages that a step publishes in Pages.Location.
type PublishedPages struct{ Step, PathPrefix string }
