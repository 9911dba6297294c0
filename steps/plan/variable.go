package plan

import (
	"runtime"
	"slices"
	"strings"
)

// BaseVariables are the variables that every process needs, by name and pattern: a component has them without a request.
var BaseVariables = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LANGUAGE", "LC_*",
	"XDG_*_HOME", "XDG_RUNTIME_DIR", "GIT_CONFIG_GLOBAL", // the run's own folders
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
}

// baseOnWindows are those that programs on Windows need besides.
var baseOnWindows = []string{
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
	"TEMP", "TMP",
}

// TakeoverVariables are those through which whoever sets them makes later programs run other code, read other configuration or trust
// others, by name and pattern: what the loader, interpreters, shells, git and editors read, and where programs find their files and servers.
var TakeoverVariables = []string{
	"LD_*", "DYLD_*", "LIBPATH", "GCONV_PATH", "GLIBC_TUNABLES", "MALLOC_*",
	"BASH_ENV", "BASH_FUNC_*", "ENV", "ZDOTDIR", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS", "CDPATH", "SHELL",
	"PYTHON*PATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONBREAKPOINT", "PYTHONINSPECT",
	"NODE_OPTIONS", "NODE_PATH", "PERL5*", "PERLLIB", "RUBYOPT", "RUBYLIB", "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*", "PHPRC", "PHP_INI_SCAN_DIR",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH",
	"GIT_*", "EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE", "MANPAGER", "BROWSER", "SSH_ASKPASS", "SUDO_ASKPASS",
	"HOME", "USERPROFILE", "XDG_*", "TMPDIR", "COMSPEC", "PATHEXT",
	"SSL_CERT_*", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
}

// IsBaseVariable reports whether every process has the variable.
func IsBaseVariable(name string) bool {
	if runtime.GOOS == "windows" {
		name = strings.ToUpper(name)
		return MatchesVariable(BaseVariables, name) || slices.Contains(baseOnWindows, name)
	}
	return MatchesVariable(BaseVariables, name)
}

// IsTakeoverVariable reports whether the variable can take over later programs. Upper and lower case are the same: they are on Windows.
func IsTakeoverVariable(name string) bool {
	return MatchesVariable(TakeoverVariables, name) || MatchesVariable(TakeoverVariables, strings.ToUpper(name))
}

// IsPattern reports whether a request is one of several variables.
func IsPattern(name string) bool { return strings.Contains(name, "*") }

// MatchesVariable reports whether one of the names and patterns is that of the variable.
func MatchesVariable(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matchesPattern(pattern, name) })
}

// matchesPattern compares a name with a pattern, in which * stands for any text.
func matchesPattern(pattern, name string) bool {
	before, after, many := strings.Cut(pattern, "*")
	if !many {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, before)
	if !ok {
		return false
	}
	if !strings.Contains(after, "*") {
		return strings.HasSuffix(rest, after)
	}
	for i := range len(rest) + 1 {
		if matchesPattern(after, rest[i:]) {
			return true
		}
	}
	return false
}
