package registration

import (
	"runtime"

	"github.com/rungci/rung/manager/gitlab"
)

// Info is what GitLab is told of this program. GitLab keeps what it was told first for most of an hour, so that registering and running must say
// the same.
func Info(version, revision string) gitlab.Info {
	return gitlab.Info{
		Name: "rung", Version: version, Revision: revision, Platform: runtime.GOOS, Architecture: runtime.GOARCH, Features: Features,
	}
}

// Features are those of jobs on every level. Those of images and services are added where the level of an entry has them.
var Features = gitlab.Features{
	Variables: true, Artifacts: true, Cache: true, UploadMultipleArtifacts: true, UploadRawArtifacts: true, Refspecs: true, Masking: true,
	RawVariables: true, ArtifactsExclude: true, MultiBuildSteps: true, TraceReset: true, TraceChecksum: true, TraceSize: true, VaultSecrets: true,
	Cancelable: true, ReturnExitCode: true, CancelGracefully: true, NativeSteps: true, TwoPhaseJobCommit: true, JobInputs: true, FallbackCacheKeys: true,
}
