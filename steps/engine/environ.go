package engine

import (
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/value"
)

// BaseNames are the variables of the host's environment that reach the steps: what programs need to be found, to speak
// the user's language and to get through a proxy. Source: the existing step-runner's list for its `ci` command.
var BaseNames = []string{
	"PATH", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER", "SHELL", "TERM", "TMPDIR", "TZ",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
}

// homeNames are the variables that say where the user's files are; --host-home lets them through.
var homeNames = []string{
	"HOME", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
	"USERPROFILE", "APPDATA", "LOCALAPPDATA",
}

// windowsNames are what programs on Windows cannot start without.
var windowsNames = []string{"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "WINDIR", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// variable is the value of an environment variable.
type variable struct {
	text      string
	sensitive bool
}

// environ is an environment. Lists that add nothing share their parent's.
type environ struct{ vars map[string]variable }

// baseEnviron builds what every step of a run is given: the base names of the host, the run's own folders, and extra.
func baseEnviron(host []string, extra map[string]string, dirs *directories) *environ {
	known := map[string]bool{}
	for _, name := range BaseNames {
		known[name] = true
	}
	if dirs.home == "" {
		for _, name := range homeNames {
			known[name] = true
		}
	}
	if runtime.GOOS == "windows" {
		for _, name := range windowsNames {
			known[strings.ToUpper(name)] = true
		}
	}
	vars := map[string]variable{}
	for _, pair := range host {
		name, text, _ := strings.Cut(pair, "=")
		if known[name] || runtime.GOOS == "windows" && known[strings.ToUpper(name)] {
			vars[name] = variable{text: text}
		}
	}
	if _, ok := vars["PATH"]; !ok && runtime.GOOS != "windows" {
		vars["PATH"] = variable{text: defaultPath}
	}
	if dirs.home != "" {
		maps.Copy(vars, homeVariables(dirs.home))
		names := []string{"TMPDIR", "XDG_RUNTIME_DIR"}
		if runtime.GOOS == "windows" {
			names = append(names, "TEMP", "TMP")
		}
		for _, name := range names {
			vars[name] = variable{text: dirs.tmp}
		}
	}
	for name, text := range extra {
		vars[name] = variable{text: text}
	}
	return &environ{vars}
}

// homeVariables are the variables that point programs to a home folder.
func homeVariables(home string) map[string]variable {
	vars := map[string]variable{
		"HOME":              {text: home},
		"XDG_CONFIG_HOME":   {text: filepath.Join(home, ".config")},
		"XDG_CACHE_HOME":    {text: filepath.Join(home, ".cache")},
		"XDG_DATA_HOME":     {text: filepath.Join(home, ".local", "share")},
		"XDG_STATE_HOME":    {text: filepath.Join(home, ".local", "state")},
		"GIT_CONFIG_GLOBAL": {text: filepath.Join(home, ".gitconfig")},
	}
	if runtime.GOOS == "windows" {
		vars["USERPROFILE"] = variable{text: home}
		vars["APPDATA"] = variable{text: filepath.Join(home, "AppData", "Roaming")}
		vars["LOCALAPPDATA"] = variable{text: filepath.Join(home, "AppData", "Local")}
	}
	return vars
}

// with returns the environment with the variables set over it.
func (e *environ) with(vars map[string]variable) *environ {
	if len(vars) == 0 {
		return e
	}
	merged := maps.Clone(e.vars)
	maps.Copy(merged, vars)
	return &environ{merged}
}

// value returns the environment as the `env` context.
func (e *environ) value(own map[string]variable) value.Value {
	fields := make(map[string]value.Value, len(e.vars)+len(own))
	for name, v := range e.vars {
		fields[name] = value.OfString(v.text).Mark(v.sensitive)
	}
	for name, v := range own {
		fields[name] = value.OfString(v.text).Mark(v.sensitive)
	}
	return value.OfStruct(fields)
}

// list returns NAME=value pairs in order, own variables over the rest.
func (e *environ) list(own map[string]variable) []string {
	pairs := make([]string, 0, len(e.vars)+len(own))
	for name, v := range e.vars {
		if _, hidden := own[name]; !hidden {
			pairs = append(pairs, name+"="+v.text)
		}
	}
	for name, v := range own {
		pairs = append(pairs, name+"="+v.text)
	}
	slices.Sort(pairs)
	return pairs
}

// difference returns what a process that gets e and own is given beyond, and without, base.
func (e *environ) difference(base *environ, own map[string]variable, out *emitter) (set map[string]string, unset []string) {
	set = shownVariables(own, out)
	follows := map[string]variable{} // of another home than that of base, which says where the rest is
	if home := e.vars["HOME"]; home != base.vars["HOME"] {
		follows = homeVariables(home.text)
		delete(follows, "HOME")
	}
	for name, v := range e.vars {
		if _, hidden := own[name]; hidden || base.vars[name] == v || follows[name] == v && v.text != "" {
			continue
		}
		if set == nil {
			set = map[string]string{}
		}
		set[name] = out.shownText(v.text, v.sensitive)
	}
	for name := range base.vars {
		if _, ok := e.vars[name]; !ok {
			unset = append(unset, name)
		}
	}
	slices.Sort(unset)
	return set, unset
}

// shown returns the environment as events show it.
func (e *environ) shown(out *emitter) map[string]string { return shownVariables(e.vars, out) }

func shownVariables(vars map[string]variable, out *emitter) map[string]string {
	if len(vars) == 0 {
		return nil
	}
	shown := make(map[string]string, len(vars))
	for name, v := range vars {
		shown[name] = out.shownText(v.text, v.sensitive)
	}
	return shown
}
