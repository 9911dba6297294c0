package runners

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/registration"
	"github.com/rungci/rung/steps/source"
)

// registering are the flags of `register` that are no keys of an entry.
type registering struct {
	server            gitlab.Registration
	registrationToken string
	tokenFile         string
	template          string
	unattended        bool
	leave             bool
}

func registerCommand(p *command.Program) *cobra.Command {
	var o registering
	keys := slices.DeleteFunc(keyFlags(config.EntryKeys()), func(f *keyFlag) bool { return slices.Contains(serverKeys, f.key.EntryName()) })
	cmd := &cobra.Command{
		Use:   "register",
		Short: "Register this machine as a runner of GitLab",
		Long: `register makes this machine known to GitLab, and adds an entry to the configuration, whose other bytes stay as they are. It asks for what is
missing; with --non-interactive nothing is asked.

With an authentication token (glrt-…), which GitLab shows when a runner is made there, the token is verified. A registration token, which GitLab has
deprecated, makes a runner. Give tokens in a file or a variable of the environment: other users of a machine can see the arguments of a program.

Every key of an entry is a flag, and a variable of the environment, as in gitlab-runner: --docker-volumes and DOCKER_VOLUMES for volumes in
[runners.docker], --builds-dir and RUNNER_BUILDS_DIR for builds_dir.

` + place.CodesHelp,
		Example: `  rung register
  rung register --url https://gitlab.example.com --token-file token -n \
    --executor docker --docker-image alpine:3.22 --isolation-default sandbox`,
		Args: command.Arguments(0, 0, ""),
	}
	file := place.Flag(p, cmd)
	f := cmd.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "description" {
			name = "name"
		}
		return pflag.NormalizedName(kebab(name))
	})
	declare(f, keys)
	f.StringVar(&o.tokenFile, "token-file", "", "read the token from `FILE` (- is standard input)")
	f.StringVarP(&o.registrationToken, "registration-token", "r", "", "make a runner with a registration `TOKEN` (REGISTRATION_TOKEN)")
	f.BoolVarP(&o.unattended, "non-interactive", "n", false, "ask nothing (REGISTER_NON_INTERACTIVE)")
	f.BoolVar(&o.leave, "leave-runner", false, "keep the runner in GitLab if the entry cannot be written")
	f.StringVar(&o.template, "template-config", "", "take what is not given from the entry in `FILE` (TEMPLATE_CONFIG_FILE)")
	f.StringVar(&o.server.TagList, "tag-list", "", "`TAGS` of the new runner, separated by commas (RUNNER_TAG_LIST)")
	f.BoolVar(&o.server.RunUntagged, "run-untagged", false, "run jobs without tags, too")
	f.BoolVar(&o.server.Locked, "locked", true, "lock the new runner to its project")
	f.StringVar(&o.server.AccessLevel, "access-level", "", "run jobs of all refs or of protected ones: not_protected, ref_protected")
	f.IntVar(&o.server.MaximumTimeout, "maximum-timeout", 0, "end jobs after `SECONDS`, at most")
	f.BoolVar(&o.server.Paused, "paused", false, "make a runner that gets no jobs yet")
	f.StringVar(&o.server.MaintenanceNote, "maintenance-note", "", "a `NOTE` for administrators")
	command.Complete(cmd, "access-level", "not_protected", "ref_protected")
	ignored := declareIgnored(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := o.environment(p, cmd); err != nil {
			return err
		}
		tellIgnored(p, ignored)
		values, err := o.values(p, keys)
		if err != nil {
			return err
		}
		if err := o.complete(p, values); err != nil {
			return err
		}
		if err := sound(values); err != nil {
			return err
		}
		ctx, done := interruptible(cmd)
		defer func() { err = done(err) }()
		result, err := file.Manager().Register(ctx, registration.Request{Values: values, RegistrationToken: o.registrationToken, Server: o.server, Leave: o.leave})
		if err != nil {
			return err
		}
		o.tell(p, result, file.Path())
		return nil
	}
	return cmd
}

// sound finds mistakes in what was given before GitLab is asked: they are those of flags, and not of a file.
func sound(values config.Values) error {
	if address, _ := values["url"].(string); address != "" {
		if _, err := gitlab.New(gitlab.Options{URL: os.ExpandEnv(address)}); err != nil {
			return exit.Usage("--url %q: %v", source.MaskUserinfo(address), err)
		}
	}
	name, _ := values["executor"].(string)
	if known := config.Executors(); name != "" && !slices.Contains(known, name) {
		return exit.Usage("--executor: there is no executor %q", name).Hinted("it must be one of %s", strings.Join(known, ", "))
	}
	return nil
}

// environment reads the variables for flags that are no keys.
func (o *registering) environment(p *command.Program, cmd *cobra.Command) error {
	for flag, name := range map[string]string{
		"registration-token": "REGISTRATION_TOKEN", "non-interactive": "REGISTER_NON_INTERACTIVE", "leave-runner": "REGISTER_LEAVE_RUNNER",
		"template-config": "TEMPLATE_CONFIG_FILE", "tag-list": "RUNNER_TAG_LIST", "run-untagged": "REGISTER_RUN_UNTAGGED", "locked": "REGISTER_LOCKED",
		"access-level": "REGISTER_ACCESS_LEVEL", "maximum-timeout": "REGISTER_MAXIMUM_TIMEOUT", "paused": "REGISTER_PAUSED",
		"maintenance-note": "REGISTER_MAINTENANCE_NOTE",
	} {
		if text := p.Getenv(name); text != "" && !cmd.Flags().Changed(flag) {
			if err := cmd.Flags().Set(flag, text); err != nil {
				return exit.Usage("%s: %v", name, err)
			}
		}
	}
	if o.server.AccessLevel == "" {
		return nil
	}
	return command.OneOf("--access-level", o.server.AccessLevel, "not_protected", "ref_protected")
}

// values are those of the entry: of the flags, of the environment, of the template, in this order.
func (o *registering) values(p *command.Program, keys []*keyFlag) (config.Values, error) {
	values := config.Values{}
	if o.template != "" {
		name, text, err := p.Read(o.template)
		if err != nil {
			return nil, fmt.Errorf("--template-config: %w", err)
		}
		if values, err = config.Template(name, text); err != nil {
			return nil, err
		}
	}
	if err := read(p, keys, values); err != nil {
		return nil, err
	}
	given, _ := values["token"].(string)
	if o.tokenFile != "" && given == p.Getenv("CI_SERVER_TOKEN") {
		given = ""
	}
	token, err := secretFrom(p, "token", given, o.tokenFile)
	if err != nil {
		return nil, err
	}
	if delete(values, "token"); token != "" {
		values["token"] = token
	}
	return values, nil
}

// complete asks for what is missing, or says that it is.
func (o *registering) complete(p *command.Program, values config.Values) error {
	host, _ := os.Hostname()
	a := &asker{p: p, unattended: o.unattended}
	a.text(values, "url", "GitLab's address, for example https://gitlab.com", "")
	if values["token"] == nil && o.registrationToken == "" {
		if token := a.secret("token", "the runner's token"); token != "" {
			if registration.IsAuthenticationToken(token) {
				values["token"] = token
			} else {
				o.registrationToken = token
			}
		}
	}
	a.text(values, "name", "a name for the runner", cmp.Or(host, "runner"))
	a.text(values, "executor", "an executor: docker, shell, ssh, custom or plugin", "")
	switch values["executor"] {
	case "docker", "docker-autoscaler", "docker+machine":
		a.text(values, "docker.image", "the image of jobs that name none, for example alpine:3.22", "")
		if values["docker.volumes"] == nil {
			values["docker.volumes"] = []any{"/cache"}
		}
	case "ssh":
		a.text(values, "ssh.host", "the host that jobs run on", "")
		a.text(values, "ssh.user", "the user there", "")
	case "plugin":
		if values["plugin.file"] == nil {
			a.text(values, "plugin.name", "the plugin's name: NAME of executor-plugin-NAME", "")
		}
	case "custom":
		a.text(values, "custom.run_exec", "the program that runs scripts", "")
	}
	return a.err
}

// tell says what was done, and what might not be as it was meant.
func (o *registering) tell(p *command.Program, result *registration.Result, path string) {
	r := &result.Runner
	if result.Ignored {
		p.Tell("note: the token is an authentication token: tags, access level, timeout, pausing and notes are set in GitLab, and were ignored")
	}
	if result.Again {
		p.Tell("warning: " + path + " had an entry with this token already: both ask for its jobs")
	}
	level := ""
	if levels, err := r.Levels(); err != nil {
		p.Tell("warning: " + err.Error() + "; gitlab-runner can")
	} else {
		level = ", level " + string(levels.Default)
	}
	if o.server.TagList == "" && o.registrationToken != "" && !o.server.RunUntagged && !result.Ignored {
		p.Tell("note: the runner has no tags, and runs jobs without tags")
	}
	p.Tell("registered " + label(r) + " as runner " + strconv.FormatInt(r.ID, 10) + " of " + source.MaskUserinfo(r.URL) + ": executor " + r.Executor + level)
	p.Tell("the entry was added to " + path + ", which a running manager reads by itself")
}
