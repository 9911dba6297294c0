package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/pluginstore"
	"github.com/rungci/rung/publish/oci"
	"github.com/rungci/rung/publish/plugin"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

func publishCommand(p *command.Program) *cobra.Command {
	var force, noFloat bool
	var mirror, kind string
	registry := &registryFlags{p: p}
	cmd := &cobra.Command{
		Use:   "publish DIR|FILE... REF",
		Short: "Publish a plugin to a registry or a mirror",
		Long: `publish uploads an image of a plugin with a program for each platform to REF: REGISTRY/REPOSITORY:VERSION, or NAME:VERSION with --registry.

In a folder the programs are OS/ARCH/plugin or dist/OS/ARCH/plugin (plugin.exe on Windows; the only file there may have any name), with the names of Go: linux/amd64,
darwin/arm64, linux/armv7. Files say themselves what they are for; a script is for every platform. A plugin is one file: make one of a Python plugin and its SDK with
"python3 -m zipapp".

A full version, 1.2.3, also sets the tags 1.2, 1 and latest, unless the registry has a newer version for the tag. A version that exists with other content is refused.
The same programs give the same digest.

--to DIR adds the image to a mirror instead: a folder with an OCI image layout, which ` + "`rung plugin install --from DIR`" + ` reads. Credentials are those of docker login
and ` + "`rung plugin login`" + `.

Exit codes: 0 success · 2 usage · 3 wrong programs · 4 not allowed · 5 internal error or the registry failed · 6 not found · 130 interrupted`,
		Example: `  rung plugin publish dist registry.example.com/ci/plugins/aws:1.2.3
  rung plugin publish group-plugin-aws-* registry.example.com/ci/aws:1.2.3
  rung plugin publish ./group-plugin-aws aws:1.2.3 --to /media/mirror`,
		Args: command.Arguments(2, -1, "DIR or FILE, and REF"),
	}
	cmd.Flags().StringVar(&mirror, "to", "", "add the image to the mirror in the folder `DIR`, and not to a registry")
	cmd.Flags().StringVar(&kind, "kind", "", "say what the plugin is for, where the names of its programs do not: `KIND`: executor, provider, group")
	command.Complete(cmd, "kind", pluginstore.Kinds...)
	cmd.Flags().BoolVar(&force, "force", false, "replace a version that exists with other content")
	cmd.Flags().BoolVar(&noFloat, "no-float", false, "set only the named tag")
	registry.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		if kind != "" {
			if err := command.OneOf("--kind", kind, pluginstore.Kinds...); err != nil {
				return err
			}
		}
		at, err := registry.target(args[len(args)-1], mirror != "")
		if err != nil {
			return err
		}
		image, err := imageOf(p, args[:len(args)-1], kind, at)
		if err != nil {
			return err
		}
		if mirror != "" {
			digest, unchanged, err := image.Mirror(ctx, mirror, at.URL+":"+at.Rev, force)
			if err != nil {
				return published(ctx, err)
			}
			text := "added %s:%s to %s"
			if unchanged {
				text = "unchanged: %s:%s in %s"
			}
			_, err = fmt.Fprintf(p.Stdout, text+"\ndigest %s\n", at.URL, at.Rev, mirror, digest)
			return err
		}
		to := oci.Target{At: at, Tag: at.Rev, Force: force, NoFloat: noFloat, Credentials: finder(p)}
		pushed, err := image.Push(ctx, to)
		if err != nil {
			return published(ctx, err)
		}
		verb := "published"
		if pushed.Unchanged {
			verb = "unchanged"
		}
		repository := pushed.Registry + "/" + pushed.Repository
		_, err = fmt.Fprintf(p.Stdout, "%s %s:%s\ndigest %s\ntags %s\ninstall it with: rung plugin install %s:%s\nor: rung plugin install %s@%s\n", verb, repository, at.Rev, pushed.Digest,
			strings.Join(pushed.Tags, ", "), repository, at.Rev, repository, pushed.Digest)
		return err
	}
	return cmd
}

// target reads REGISTRY/REPOSITORY:VERSION, or NAME:VERSION.
func (f *registryFlags) target(text string, mirror bool) (*source.Location, error) {
	text = strings.TrimPrefix(text, "oci://")
	i := strings.LastIndexByte(text, ':')
	if i < strings.LastIndexByte(text, '/') || i < 0 || strings.Contains(text, "@") || !distribution.IsTag(text[i+1:]) {
		return nil, exit.Usage("%q has no version", text).Hinted("write REGISTRY/REPOSITORY:VERSION")
	}
	name, tag := text[:i], text[i+1:]
	ref, err := pluginstore.Parse(name)
	if err != nil {
		return nil, exit.Usage("%v", err)
	}
	if _, err := pluginstore.Parse(text); err != nil { // which nobody could install by its name
		return nil, exit.Usage("%q is not a version: write 1.2.3, or 1.2.3-rc.1 before the release", tag).Hinted("1.2, 1 and latest are for what is replaced again and again; a full version sets them")
	}
	if !ref.HasRegistry() && !mirror {
		base := f.place("").Registry
		if base == "" {
			return nil, exit.Usage("%s: %v", text, plugin.ErrNoRegistry)
		}
		name = strings.TrimSuffix(base, "/") + "/" + name
	}
	if ref.HasRegistry() || !mirror {
		if _, _, err := distribution.Split(name); err != nil {
			return nil, exit.Usage("%q: %v", name, err).Hinted("write REGISTRY/REPOSITORY:VERSION")
		}
	}
	at := &source.Location{Kind: plan.RefOCI, Name: name, URL: name, Rev: tag}
	at.Access.PlainHTTP = f.plainHTTP
	return at, nil
}

// imageOf is the image of programs.
func imageOf(p *command.Program, paths []string, kind string, at *source.Location) (*plugin.Image, error) {
	programs, named, err := plugin.Programs(paths)
	if err != nil {
		return nil, published(context.Background(), err)
	}
	ofName, short := pluginstore.Divide(path.Base(at.URL))
	for _, other := range []string{named, ofName} {
		if kind != "" && other != "" && kind != other {
			return nil, exit.Usage("the plugin is named as one for the contract %q, and is to be for %q", other, kind)
		}
		if other != "" {
			kind = other
		}
	}
	image := &plugin.Image{Programs: programs, Kind: kind, Name: short, Version: at.Rev}
	if epoch := p.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || seconds < 0 {
			return nil, exit.Usage("SOURCE_DATE_EPOCH: %q is not a number of seconds", epoch)
		}
		image.Time = time.Unix(seconds, 0)
	}
	return image, nil
}

// published gives the errors of publishing their exit codes.
func published(ctx context.Context, err error) error {
	var missing *source.NotFoundError
	var denied *source.DeniedError
	var fetch *source.FetchError
	var path *fs.PathError
	switch {
	case ctx.Err() != nil:
		return exit.Coded(exit.Interrupted, "interrupted")
	case errors.As(err, &missing), errors.As(err, &denied), errors.As(err, &fetch), errors.As(err, &path):
		return err
	case errors.Is(err, oci.ErrExists):
		return exit.Usage("%v", err).Hinted("give another folder")
	}
	return exit.Coded(exit.Definition, "%v", err) // what is wrong with the programs
}
