package trust

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/publish/oci"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/credentials"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

func (a *app) ociCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "oci",
		Short: "Publish a step to a container registry",
		Long: `oci builds an image of a step for one or more platforms and pushes it to a registry. Jobs refer to it as
registry/repository:version. The existing step-runner can read it too.`,
		Example: `  step-runner oci build ./hello -o hello.tar
  step-runner oci push hello.tar registry.example.com/steps/hello:1.2.3`,
	}
	command.Group(cmd)
	cmd.AddCommand(a.ociBuildCommand(), a.ociPushCommand())
	return cmd
}

// platformHelp describes --platform for both commands.
const platformHelp = `Files in DIR go into the image for every platform. --platform PLATFORM=SOURCE adds the file or folder SOURCE for one
platform; append =TARGET to set its path in the image. A platform is written as linux/amd64, linux/arm/v7 or
windows/amd64:10.0.20348. A file in DIR that is given to a platform is for that platform only. Without --platform the
step is for every platform.

Every definition file in DIR (func.yml, step.yml) must be valid. Builds are reproducible: all times are SOURCE_DATE_EPOCH,
or the beginning of 1970, and only the executable bit of file modes is kept. Sockets, pipes and devices are left out.`

func (a *app) ociBuildCommand() *cobra.Command {
	var platforms []string
	var out, entrypoint string
	cmd := &cobra.Command{
		Use:   "build DIR",
		Short: "Build an OCI image of a step",
		Long: `build writes the step in a folder as an OCI image layout: a tar archive if OUT ends with .tar, otherwise a folder. An
existing image layout is replaced.

` + platformHelp + `

Exit codes: 0 success · 2 usage · 3 invalid step · 4 not allowed · 5 internal error · 6 not found`,
		Example: `  step-runner oci build ./hello -o hello.tar
  step-runner oci build ./hello -o hello.tar \\
    --platform linux/amd64=build/hello-amd64=bin/hello \\
    --platform linux/arm64=build/hello-arm64=bin/hello`,
		Args: command.Arguments(1, 1, "the folder of the step"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return exit.Usage("-o is missing").Hinted("say where the image goes: -o step.tar")
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			result, err := a.buildImage(ctx, args[0], platforms, entrypoint, out)
			if err != nil {
				return err
			}
			for _, image := range result.Images {
				fmt.Fprintf(a.Stdout, "%s %s, %s, content %s\n", image.Platform, image.Digest, quantity.Count(image.Files, "file"), image.Content)
			}
			fmt.Fprintf(a.Stdout, "built %s %s\n", out, result.Digest)
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&platforms, "platform", nil, "add files for one platform: `PLATFORM=SOURCE[=TARGET]`")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the image to `OUT`")
	cmd.Flags().StringVar(&entrypoint, "entrypoint", "", "make an image that container engines run: it starts the program at `PATH`, and need not hold a step")
	return cmd
}

func (a *app) ociPushCommand() *cobra.Command {
	var platforms []string
	var force, noFloat, plainHTTP bool
	cmd := &cobra.Command{
		Use:   "push DIR|OUT REGISTRY/REPOSITORY:VERSION",
		Short: "Push a step to a registry",
		Long: `push uploads a step to a registry: an image that oci build wrote, or the step in a folder, which is built first.

A full version, 1.2.3 or v1.2.3, also sets the tags 1.2, 1 and latest, unless the registry has a newer version for the
tag. A prerelease (1.2.3-rc.1) or any other tag sets no further tags. A version that already exists with different content
is refused; other tags are moved.

Credentials are those of docker login: Docker's config.json, DOCKER_AUTH_CONFIG, credential helpers.

` + platformHelp + `

Exit codes: 0 success · 2 usage · 3 invalid step · 4 not allowed · 5 internal error or the registry failed · 6 not found`,
		Example: `  step-runner oci push ./hello registry.example.com/steps/hello:1.2.3
  step-runner oci push hello.tar registry.example.com/steps/hello:2.0.0-rc.1`,
		Args: command.Arguments(2, 2, "what to push, and where to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			to, err := a.pushTarget(args[1])
			if err != nil {
				return err
			}
			to.Force, to.NoFloat, to.At.Access.PlainHTTP = force, noFloat, plainHTTP
			path := args[0]
			if !oci.IsLayout(path) {
				temp, err := os.MkdirTemp("", "step-runner-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(temp)
				if _, err := a.buildImage(ctx, path, platforms, "", filepath.Join(temp, "image")); err != nil {
					return err
				}
				path = filepath.Join(temp, "image")
			} else if len(platforms) > 0 {
				return exit.Usage("--platform is for building, and %s is already built", path)
			}
			pushed, err := oci.Push(ctx, path, to)
			if err != nil {
				return publishError(ctx, err)
			}
			return a.printPushed(pushed)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&platforms, "platform", nil, "add files for one platform: `PLATFORM=SOURCE[=TARGET]`")
	f.BoolVar(&force, "force", false, "replace a version that exists with other content")
	f.BoolVar(&noFloat, "no-float", false, "set only the named tag")
	f.BoolVar(&plainHTTP, "plain-http", false, "use HTTP without TLS; not needed for a registry on this machine")
	return cmd
}

func (a *app) printPushed(p *oci.Pushed) error {
	repository := p.Registry + "/" + p.Repository
	verb := "pushed"
	if p.Unchanged {
		verb = "unchanged"
	}
	_, err := fmt.Fprintf(a.Stdout, "%s %s:%s\ndigest %s\ntags %s\nuse step: %s:%s\nor  step: %s@%s\n", verb, repository, p.Tags[0], p.Digest,
		strings.Join(p.Tags, ", "), repository, p.Tags[0], repository, p.Digest)
	return err
}

// pushTarget reads registry/repository:version.
func (a *app) pushTarget(text string) (to oci.Target, err error) {
	text = strings.TrimPrefix(text, "oci://")
	i := strings.LastIndexByte(text, ':')
	if i < strings.LastIndexByte(text, '/') || i < 0 {
		return to, exit.Usage("%q has no version", text).Hinted("write registry/repository:version")
	}
	name, tag := text[:i], text[i+1:]
	if strings.Contains(name, "@") || !distribution.IsTag(tag) {
		return to, exit.Usage("%q is not a tag", tag).Hinted("write registry/repository:version")
	}
	if _, _, err := distribution.Split(name); err != nil {
		return to, exit.Usage("%q: %v", name, err).Hinted("write registry/repository:version")
	}
	home, _ := os.UserHomeDir() // without one there are no credentials in it
	return oci.Target{
		At:          &source.Location{Kind: plan.RefOCI, Name: "oci://" + name, URL: name, Rev: tag},
		Tag:         tag,
		Credentials: &credentials.Finder{Env: a.Env, Home: home},
	}, nil
}

// buildImage makes an image of the step in a folder, and warns of what is not part of it.
func (a *app) buildImage(ctx context.Context, dir string, platforms []string, entrypoint, out string) (*oci.Result, error) {
	o := oci.Options{Dir: dir, Entrypoint: entrypoint, Compile: func(name string, text []byte) error {
		_, err := gitlabsteps.ParseFile(name, text)
		return err
	}}
	for _, text := range platforms {
		p, err := oci.ParsePlatformFiles(text)
		if err != nil {
			return nil, exit.Usage("--platform: %v", err)
		}
		o.Platforms = append(o.Platforms, p)
	}
	if epoch := a.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || seconds < 0 {
			return nil, exit.Usage("SOURCE_DATE_EPOCH: %q is not a number of seconds", epoch)
		}
		o.Time = time.Unix(seconds, 0)
	}
	result, err := oci.Build(ctx, o, out)
	if err != nil {
		return nil, publishError(ctx, err)
	}
	for _, path := range result.Skipped {
		fmt.Fprintf(a.Stderr, "warning: %s is left out: it is neither a file nor a folder nor a link\n", path)
	}
	return result, nil
}

// publishError gives the errors of publishing their exit codes, where report does not know them.
func publishError(ctx context.Context, err error) error {
	var missing *source.NotFoundError
	var denied *source.DeniedError
	var fetch *source.FetchError
	var empty *oci.NoStepError
	var path *fs.PathError
	switch {
	case ctx.Err() != nil:
		return exit.Coded(exit.Interrupted, "interrupted")
	case errors.As(err, &missing), errors.As(err, &denied), errors.As(err, &fetch), diag.Of(err) != nil:
		return err
	case errors.Is(err, oci.ErrExists):
		return exit.Usage("%v", err).Hinted("give another name, or remove it")
	case errors.As(err, &empty):
		return exit.Coded(exit.Definition, "%v", err)
	case errors.As(err, &path):
		return err // of our disk
	}
	return exit.Coded(exit.Definition, "%v", err) // what is wrong with the files
}

// interruptible returns a context that ends when somebody stops the program.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
