// Package artifacts is the code of builtin://artifacts/upload and builtin://artifacts/download.
//
// Artifacts go to GitLab, or into a folder:
//
//	LOCATION/NAME.zip             the archive, by its name
//	LOCATION/TYPE.gz              a report, by its type: junit.gz, dotenv.gz
//	LOCATION/NAME-metadata.json   where the archive comes from, if that is asked for
//
// The ending is that of the format: zip (also with Zstandard), gz, tar.zst; a raw file has none but its type. What is there is replaced,
// at once and never by half.
//
// To GitLab a file goes as the runner sends it: POST /jobs/ID/artifacts with the job's token. Its name is NAME and the ending.
package artifacts

import (
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/catalog/transfer"
)

// tokenHeader holds the token of a job, on the way in and out.
const tokenHeader = "Job-Token"

// How often a request is made: the numbers of GitLab's runner.
const (
	uploadAttempts     = 3
	uploadBusyAttempts = 6
)

// clientHook changes the client of the tests.
var clientHook = func(*transfer.Client) {}

func client(call *program.Call, with transfer.Certificates) (*transfer.Client, error) {
	transport, err := with.Transport()
	if err != nil {
		return nil, err
	}
	c := &transfer.Client{Transport: transport, Attempts: uploadAttempts, BusyAttempts: uploadBusyAttempts, Again: func(err error, wait time.Duration) {
		selection.Warn(call, "%v; trying again in %v", err, wait.Round(time.Second/10))
	}}
	clientHook(c)
	return c, nil
}

func absolute(call *program.Call, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(call.WorkDir, name)
}

// extensions are the endings of the files of a format.
var extensions = map[string]string{"": ".zip", "zip": ".zip", "zipzstd": ".zip", "tarzstd": ".tar.zst", "gzip": ".gz", "raw": ""}

// safeName is a name that is one plain name in any folder: its last part, without what systems do not take; "" when nothing is left.
func safeName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`:*?"<>|`, r) {
			return '_'
		}
		return r
	}, name)
	if strings.Trim(name, "./ ") == "" {
		return ""
	}
	return name
}
