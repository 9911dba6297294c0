package local

import (
	"maps"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/values"
)

// homeFolders are the variables that say where the user's files are, and where they are below the home folder when nobody says so.
var homeFolders = map[string]string{
	"HOME": ".", "GIT_CONFIG_GLOBAL": ".gitconfig", "XDG_CONFIG_HOME": ".config", "XDG_CACHE_HOME": ".cache",
	"XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state",
}

// windowsFolders are those of Windows.
var windowsFolders = map[string]string{"USERPROFILE": ".", "APPDATA": "AppData/Roaming", "LOCALAPPDATA": "AppData/Local"}

// hostEnvironment is what --host-home and --env give to steps on this machine.
func (o *localFlags) hostEnvironment() (map[string]string, error) {
	env := map[string]string{}
	if o.hostHome {
		folders, home := maps.Clone(homeFolders), o.app.Getenv("HOME")
		if runtime.GOOS == "windows" {
			maps.Copy(folders, windowsFolders)
			home = o.app.Getenv("USERPROFILE")
		}
		if !filepath.IsAbs(home) {
			return nil, exit.Usage("--host-home: the home folder is unknown").Hinted("set HOME")
		}
		for name, below := range folders {
			if env[name] = o.app.Getenv(name); env[name] == "" {
				env[name] = filepath.Join(home, filepath.FromSlash(below))
			}
		}
	}
	given, err := values.Assignments("--env", o.env, values.PassedOn(o.app.Program, "--env"))
	if err != nil {
		return nil, err
	}
	for name := range given {
		if values.IsCredential(strings.ToUpper(name)) {
			return nil, exit.Usage("--env %s: its name suggests a credential, and traces would hold it", name).Hinted("use `--secret %s`, or .rung/variables.yml", name)
		}
	}
	maps.Copy(env, given)
	return env, nil
}
