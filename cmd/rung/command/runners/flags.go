package runners

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/manager/config"
)

// keyFlag is a flag of `register` for a key of an entry.
type keyFlag struct {
	key    config.Key
	flag   string
	env    string
	values []string
}

// flagNames and envNames are those of gitlab-runner that do not follow from the name of the key.
// Source: the tags of common/config.go in gitlab-runner.
var (
	flagNames = map[string]string{
		"environment": "env", "docker.tls_cert_path": "docker-cert-path", "docker.tls_verify": "docker-tlsverify", "docker.userns_mode": "docker-userns",
	}
	envNames = map[string]string{
		"url": "CI_SERVER_URL", "token": "CI_SERVER_TOKEN", "tls-ca-file": "CI_SERVER_TLS_CA_FILE", "tls-cert-file": "CI_SERVER_TLS_CERT_FILE",
		"tls-key-file": "CI_SERVER_TLS_KEY_FILE", "clone_url": "CLONE_URL", "environment": "RUNNER_ENV", "feature_flags": "FEATURE_FLAGS",
		"cache.MaxUploadedArchiveSize": "CACHE_MAXIMUM_UPLOADED_ARCHIVE_SIZE", "cache.gcs.CredentialsFile": "GOOGLE_APPLICATION_CREDENTIALS",
		"ssh.disable_strict_host_key_checking": "DISABLE_STRICT_HOST_KEY_CHECKING", "ssh.known_hosts_file": "KNOWN_HOSTS_FILE",
		"docker.tls_cert_path": "DOCKER_CERT_PATH", "docker.ipcmode": "DOCKER_IPC_MODE",
		"job_status_final_update_retry_limit": "RUNNER_job_status_final_update_retry_limit",
	}
)

// serverKeys are set by GitLab alone.
var serverKeys = []string{"id", "token_obtained_at", "token_expires_at"}

// kebab writes ServerAddress, and server_address, as server-address.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		upper := r >= 'A' && r <= 'Z'
		if upper && i > 0 {
			before := name[i-1]
			next := i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z'
			if before >= 'a' && before <= 'z' || next && before != '.' && before != '_' {
				b.WriteByte('-')
			}
		}
		switch r {
		case '.', '_':
			b.WriteByte('-')
		default:
			b.WriteString(strings.ToLower(string(r)))
		}
	}
	return b.String()
}

// keyFlags are the flags for keys of an entry.
func keyFlags(keys []config.Key) []*keyFlag {
	var all []*keyFlag
	for _, k := range keys {
		name := k.EntryName()
		f := &keyFlag{key: k, flag: flagNames[name], env: envNames[name]}
		if f.flag == "" {
			f.flag = kebab(name)
		}
		if f.env == "" {
			f.env = strings.ToUpper(strings.ReplaceAll(kebab(name), "-", "_"))
			if !strings.Contains(name, ".") {
				f.env = "RUNNER_" + f.env
			}
		}
		all = append(all, f)
	}
	return all
}

// shownFlags are those that the help text has, with their texts.
var shownFlags = map[string]string{
	"url": "GitLab's `URL`", "token": "the runner's authentication `TOKEN`, made in GitLab", "executor": "the `EXECUTOR` of its jobs: docker, shell, ssh, custom",
	"name": "call the entry `NAME`; this host's name if not given", "limit": "run at most `N` of its jobs at once",
	"docker-image": "the `IMAGE` of jobs that name none", "isolation-default": "the `LEVEL` of isolation of jobs that ask for none",
	"tls-ca-file": "a `FILE` with certificates that GitLab's may be signed by",
}

// shorthands are those of gitlab-runner.
var shorthands = map[string]string{"url": "u", "token": "t"}

// declare adds the flags to a set.
func declare(set *pflag.FlagSet, all []*keyFlag) {
	for _, f := range all {
		usage, shown := shownFlags[f.flag]
		set.StringArrayVarP(&f.values, f.flag, shorthands[f.flag], nil, usage)
		added := set.Lookup(f.flag)
		added.Hidden = !shown
		if f.key.Type == "bool" {
			added.NoOptDefVal = "true"
		}
	}
}

// declareIgnored adds the flags that gitlab-runner has for keys without a meaning here, as scripts have them. Those that are there already have one.
func declareIgnored(set *pflag.FlagSet) (ignored []*keyFlag) {
	ignored = slices.DeleteFunc(keyFlags(config.IgnoredEntryKeys()), func(f *keyFlag) bool { return set.Lookup(f.flag) != nil })
	declare(set, ignored)
	return ignored
}

// tellIgnored says of flags that were given why they have no effect.
func tellIgnored(p *command.Program, ignored []*keyFlag) {
	for _, f := range ignored {
		if len(f.values) > 0 {
			p.Tell("note: --" + f.flag + " has no effect: " + f.key.Text)
		}
	}
}

// read are the values of flags, and of variables of the environment for those that were not given.
func read(p *command.Program, all []*keyFlag, into config.Values) error {
	for _, f := range all {
		texts, from := f.values, "--"+f.flag
		if len(texts) == 0 {
			text := p.Getenv(f.env)
			if text == "" {
				continue
			}
			from, texts = f.env, []string{text}
			if f.key.Type == "list" || f.key.Type == "words" {
				texts = strings.Split(text, ",")
			}
		}
		value, err := f.key.ParseValue(texts)
		if err != nil {
			return exit.Usage("%s %v", from, err)
		}
		into[f.key.EntryName()] = value
	}
	return nil
}
