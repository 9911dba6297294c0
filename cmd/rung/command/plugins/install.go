package plugins

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/executor/plugin"
	groupplugin "github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginstore"
	"github.com/rungci/rung/manager/config"
	publish "github.com/rungci/rung/publish/plugin"
	"github.com/rungci/rung/steps/source/credentials"
)

const (
	codesHelp = `Exit codes: 0 success · 1 some could not be installed · 2 usage · 3 invalid configuration · 4 not allowed · 5 internal error or the registry failed
· 6 not found · 130 interrupted`
	referencesHelp = `A plugin is named as NAME, NAME:VERSION, REGISTRY/REPOSITORY[:VERSION], or either with @sha256:DIGEST. VERSION is latest, 1, 1.2 or a full version; the newest
version that meets it counts, and those before a release only by their full version. A name alone is of the registry in RUNG_PLUGIN_REGISTRY
(registry.example.com/ci/plugins), or of the mirror.`
	folderHelp = `Plugins are kept in --folder, or RUNG_PLUGIN_PATH, or /var/lib/rung/plugins for root and ~/.local/share/rung/plugins for others. rung run looks there as well: run
these commands as its user.`
)

// kindOf are the kinds by the words of package pluginstore.
var kindOf = map[string]*pluginhost.Kind{"executor": plugin.ExecutorKind, "provider": plugin.ProviderKind, "group": groupplugin.Kind}

// store is the plugin folder of a command.
type store struct {
	p      *command.Program
	folder string
}

func storeFlag(p *command.Program, cmd *cobra.Command) *store {
	s := &store{p: p}
	cmd.Flags().StringVar(&s.folder, "folder", "", "keep plugins in the folder `DIR` (RUNG_PLUGIN_PATH)")
	return s
}

// path is the folder. The error says that there is none.
func (s *store) path() (string, error) {
	if folder := cmp.Or(s.folder, pluginstore.DefaultFolder(s.p.Getenv)); folder != "" {
		return folder, nil
	}
	return "", exit.Usage("there is no HOME to keep plugins in: use --folder")
}

// registryFlags are those of commands that speak to registries.
type registryFlags struct {
	p         *command.Program
	registry  string
	plainHTTP bool
}

func (f *registryFlags) declare(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.plainHTTP, "plain-http", false, "use HTTP without TLS; not needed for a registry on this machine")
	cmd.Flags().StringVar(&f.registry, "registry", "", "take names without a registry to be of `REGISTRY/PATH` (RUNG_PLUGIN_REGISTRY)")
}

func (f *registryFlags) place(mirror string) *publish.Place {
	return &publish.Place{Mirror: mirror, Registry: cmp.Or(f.registry, f.p.Getenv(publish.RegistryVariable)), Credentials: finder(f.p), PlainHTTP: f.plainHTTP}
}

func finder(p *command.Program) *credentials.Finder {
	home, _ := os.UserHomeDir() // without one there are no credentials in it
	return &credentials.Finder{Env: p.Env, Home: home}
}

// interruptible returns a context that ends when somebody stops the program, or its terminal is closed.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// installation is the command `plugin install`.
type installation struct {
	p       *command.Program
	store   *store
	from    *publish.Place
	folder  string
	upgrade bool
}

func installCommand(p *command.Program) *cobra.Command {
	i := &installation{p: p}
	registry := &registryFlags{p: p}
	var mirror string
	cmd := &cobra.Command{
		Use:   "install [PLUGIN...]",
		Short: "Install plugins from a registry or a mirror",
		Long: `install brings plugins into the plugin folder: for each, the program for this machine, by its digest. Without arguments it installs what the configuration names. What is
installed and meets the version is left alone unless --upgrade is given. If one cannot be installed the others are, and the exit code is 1.

` + referencesHelp + `

--from DIR installs without a network from a mirror: a folder with an OCI image layout that holds one plugin or more, as ` + "`rung plugin publish --to DIR`" + ` makes, or with
one layout for each plugin. Credentials are those of docker login and ` + "`rung plugin login`" + `.

` + folderHelp + `

` + codesHelp,
		Example: `  rung plugin install
  rung plugin install registry.example.com/ci/plugins/aws:1.2
  rung plugin install aws --from /media/mirror
  rung plugin install --upgrade`,
		Args: command.Arguments(0, -1, ""),
	}
	file := place.Flag(p, cmd)
	i.store = storeFlag(p, cmd)
	registry.declare(cmd)
	cmd.Flags().StringVar(&mirror, "from", "", "install from the mirror in the folder `DIR`, and not from registries")
	cmd.Flags().BoolVar(&i.upgrade, "upgrade", false, "look for newer versions of what is installed")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		if i.folder, err = i.store.path(); err != nil {
			return err
		}
		i.from = registry.place(mirror)
		wanted, err := i.wanted(file, args)
		if err != nil {
			return err
		}
		return i.all(ctx, wanted)
	}
	return cmd
}

// wanted are the plugins of arguments, or of the configuration.
func (i *installation) wanted(file *place.File, args []string) (all []publish.Wanted, err error) {
	for _, text := range args {
		ref, err := pluginstore.Parse(text)
		if err != nil {
			return nil, exit.Usage("%v", err)
		}
		all = append(all, publish.Wanted{Reference: ref, Upgrade: i.upgrade})
	}
	if len(args) > 0 {
		return all, nil
	}
	uses, err := configured(file)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, use := range uses {
		ref, err := pluginstore.Parse(use.Name)
		c := pluginhost.Config{Name: use.Name, Folder: use.Folder}
		switch {
		case use.File != "" || seen[use.Kind+" "+use.Name]:
			continue
		case err != nil:
			return nil, exit.Coded(exit.Definition, "%s: %v", use.At, err)
		case kindOf[use.Kind].There(&c) && !i.upgrade:
			i.p.Tell("there already: " + use.Name)
		default:
			if _, installed := kindOf[use.Kind].Installed(&c); !installed && kindOf[use.Kind].There(&c) {
				i.p.Tell("not installed, but in PATH or a folder of the configuration: " + use.Name)
				continue
			}
			all = append(all, publish.Wanted{Reference: ref, Kind: use.Kind, Upgrade: i.upgrade})
		}
		seen[use.Kind+" "+use.Name] = true
	}
	if len(uses) == 0 {
		i.p.Tell(file.Path() + " names no plugins")
	}
	return all, nil
}

// configured are the plugins that the configuration names.
func configured(file *place.File) ([]config.PluginUse, error) {
	text, err := os.ReadFile(file.Path())
	if err != nil {
		return nil, err
	}
	return config.Plugins(file.Path(), text)
}

// all installs plugins, and goes on after a failure.
func (i *installation) all(ctx context.Context, wanted []publish.Wanted) error {
	var failed []error
	for _, w := range wanted {
		record, done, err := publish.Install(ctx, i.folder, w, i.from)
		switch {
		case ctx.Err() != nil:
			return exit.Coded(exit.Interrupted, "interrupted")
		case err != nil && len(wanted) == 1:
			return explained(err)
		case err != nil:
			_, text := exit.Report(explained(err))
			i.p.Tell(text)
			failed = append(failed, err)
		case done:
			i.p.Tell("installed " + described(record))
		case i.upgrade:
			i.p.Tell("there is nothing newer than " + described(record))
		default:
			i.p.Tell("there already: " + described(record) + "; --upgrade looks for a newer version")
		}
	}
	if len(failed) > 0 {
		return exit.Coded(exit.StepsFailed, "%d of %d plugins could not be installed", len(failed), len(wanted))
	}
	return nil
}

// described is a plugin in a line.
func described(r *pluginstore.Record) string {
	text := r.Full() + " " + r.Version
	if r.Source != "" {
		text += " from " + r.Source
	}
	return text + " (" + r.Digest + ")"
}

// explained gives the errors of this package's commands their exit codes, where exit.Report does not know them.
func explained(err error) error {
	var conflict *pluginstore.ConflictError
	switch {
	case errors.Is(err, publish.ErrNoRegistry):
		return exit.Usage("%v", err)
	case errors.As(err, &conflict) && conflict.There.Source == conflict.Wanted.Source:
		return exit.Coded(exit.Denied, "%v", err).Hinted("--upgrade replaces it")
	case errors.As(err, &conflict):
		return exit.Coded(exit.Denied, "%v", err).Hinted("`rung plugin remove %s` removes it", conflict.There.Full())
	}
	return err
}
