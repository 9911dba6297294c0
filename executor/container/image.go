package container

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/login"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// The pull policies.
const (
	Always       = "always"
	IfNotPresent = "if-not-present"
	Never        = "never"
)

// progressInterval is how often a long pull is reported.
const progressInterval = 3 * time.Second

// image is what is known of an image that the engine has.
type image struct {
	id         string
	pull       string // the name by which a registry gives the same; "" where none does
	env        []string
	entrypoint []string
	user       string
	ports      []uint16 // TCP ports that it says it listens on, sorted
}

// entrypointOf is what the container of a job that asks for the image runs its command with; nil is nothing.
func (i *image) entrypointOf(asked *containers.Image) []string {
	entrypoint := i.entrypoint
	if asked.Entrypoint != nil {
		entrypoint = asked.Entrypoint
	}
	if strings.TrimSpace(strings.Join(entrypoint, "")) == "" {
		return nil
	}
	return entrypoint
}

// puller gets the images of a job.
type puller struct {
	*Executor
	job    *executor.Job
	report executor.Reporter
	marks  *usage.Marks // that the job has its images
}

// get makes the engine have an image, by the first of its pull policies that works.
func (p *puller) get(ctx context.Context, i *containers.Image) (*image, error) {
	if err := checkImageName(i.Name); err != nil {
		return nil, err
	}
	on, err := parsePlatform(i.Platform)
	if err != nil {
		return nil, err
	}
	policies := i.PullPolicies
	if len(policies) == 0 {
		policies = p.setup.PullPolicies
	}
	return TryPolicies(ctx, p.report, i.Name, policies, func(policy string) (*image, error) { return p.byPolicy(ctx, i, on, policy) })
}

// TryPolicies gets an image by the first pull policy that can. Where none can, the error is the first one's; with several, each is reported.
func TryPolicies[T any](ctx context.Context, report executor.Reporter, name string, policies []string, get func(policy string) (T, error)) (found T, first error) {
	for _, policy := range policies {
		found, err := get(policy)
		if err == nil {
			return found, nil
		}
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		first = cmp.Or(first, err)
		if len(policies) > 1 {
			report.Say(event.PhasePulling, name, fmt.Sprintf("image %s with pull policy %s: %v", name, policy, err))
		}
	}
	return found, first
}

func (p *puller) byPolicy(ctx context.Context, i *containers.Image, on *platform, policy string) (*image, error) {
	switch policy {
	case Always:
		if err := p.pull(ctx, i, on); err != nil {
			return nil, err
		}
	case IfNotPresent, Never:
		found, err := p.found(ctx, i.Name, on)
		if err != nil || found != nil {
			return found, err
		}
		if policy == Never {
			return nil, &executor.UserError{
				Message: fmt.Sprintf("the engine has no image %s%s, and the pull policy is never", i.Name, forPlatform(i)),
				Hint:    "pull or build it first, or allow the pull policy if-not-present",
			}
		}
		if err := p.pull(ctx, i, on); err != nil {
			return nil, err
		}
	default:
		return nil, &executor.UserError{
			Message: fmt.Sprintf("image %s: %q is not a pull policy", i.Name, policy), Hint: "they are always, if-not-present and never",
		}
	}
	found, err := p.found(ctx, i.Name, on)
	if err == nil && found == nil && on != nil { // engines pull the only one that there is
		return nil, &executor.UserError{
			Message: fmt.Sprintf("image %s is not made%s", i.Name, forPlatform(i)), Hint: "name a platform that it is made for, or none",
		}
	}
	if err == nil && found == nil {
		return nil, fmt.Errorf("the engine has no image %s though it has pulled it", i.Name)
	}
	return found, err
}

func forPlatform(i *containers.Image) string {
	if i.Platform == "" {
		return ""
	}
	return " for " + i.Platform
}

// misspellings are parts of what engines say of a name that no image can have.
var misspellings = []string{"invalid reference format", "repository name must be lowercase"}

// inspect returns the image; nil when the engine does not have it, or for another platform.
func (p *puller) inspect(ctx context.Context, name string, on *platform) (*image, error) {
	found, err := p.client.Images.Inspect(ctx, name)
	if engine.Status(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil && slices.ContainsFunc(misspellings, func(part string) bool { return strings.Contains(err.Error(), part) }) {
		return nil, &executor.UserError{Message: fmt.Sprintf("%q is not the name of an image: %v", name, err), Hint: "correct it", Err: err}
	}
	if err != nil {
		return nil, p.unreachable(ctx, err)
	}
	if p.opts.NamedImages && !hasName(found, name) {
		return nil, nil // it has the name as its id
	}
	if on != nil && (found.Os != on.OS || found.Architecture != on.Architecture || on.Variant != "" && found.Variant != on.Variant) {
		return nil, nil
	}
	c := found.Config
	return &image{
		id: found.ID, pull: pullName(name, found.RepoDigests), env: c.Env, entrypoint: c.Entrypoint, user: c.User, ports: containers.TCPPorts(c.ExposedPorts),
	}, nil
}

// hasName reports whether an image was found by a name of it. Podman keeps images that it has built under localhost.
func hasName(found *engine.Image, asked string) bool {
	want := containers.ParseName(asked)
	names := found.RepoTags
	if want.Digest != "" {
		names = found.RepoDigests
	}
	return slices.ContainsFunc(names, func(name string) bool {
		have := containers.ParseName(name)
		if want.Digest == "" && have.Tag != want.Tag || have.Digest != want.Digest {
			return false
		}
		local := have.Registry == "localhost" && strings.TrimPrefix(want.Repository, "library/") == have.Repository
		return have.Registry == want.Registry && have.Repository == want.Repository || local
	})
}

// pullName returns that of the names of an image with a digest which is in the repository that it was asked for from.
func pullName(asked string, all []string) string {
	repository, _, _ := strings.Cut(containers.WithDigest(asked, ""), "@")
	for _, name := range all {
		if of, _, ok := strings.Cut(name, "@"); ok && (of == repository || strings.HasSuffix(of, "/"+repository)) {
			return name
		}
	}
	return ""
}

// pull pulls an image from its registry.
func (p *puller) pull(ctx context.Context, i *containers.Image, on *platform) error {
	auth, from, err := p.credentials(ctx, i.Name)
	if err != nil {
		p.report.Say(event.PhasePulling, i.Name, fmt.Sprintf("credentials for image %s: %v", i.Name, err))
	}
	authenticated := auth != engine.Auth{}
	started := event.Preparing{Phase: event.PhasePulling, Subject: i.Name}
	if authenticated {
		started.Message = fmt.Sprintf("pulling image %s%s with credentials of %s", i.Name, forPlatform(i), from)
	}
	p.report.Report(started)
	before := p.present(ctx, i.Name)
	progress := &pullProgress{layers: map[string][2]int64{}, told: time.Now()}
	err = p.client.Images.Pull(ctx, i.Name, on.String(), auth, func(m engine.Progress) {
		if have, all, due := progress.add(m.ID, m.Status, m.ProgressDetail.Current, m.ProgressDetail.Total); due {
			p.report.Report(event.Preparing{Phase: event.PhasePulling, Subject: i.Name, Current: have, Total: all, Unit: event.UnitBytes})
		}
	})
	if err != nil {
		return p.pullError(ctx, i, err, authenticated)
	}
	p.pulled(ctx, i.Name, before)
	p.report.Report(event.Preparing{Phase: event.PhasePulling, Subject: i.Name, Current: progress.bytes(), Unit: event.UnitBytes, Done: true})
	return nil
}

// pullProgress adds up how much of an image's layers is there.
type pullProgress struct {
	layers map[string][2]int64 // present and total bytes, by layer
	told   time.Time
}

// add takes note of a layer, and returns the bytes of all of them when a report is due.
func (p *pullProgress) add(layer, status string, current, total int64) (have, all int64, due bool) {
	if status == "Downloading" && total > 0 {
		p.layers[layer] = [2]int64{current, total}
	}
	if time.Since(p.told) < progressInterval || len(p.layers) == 0 {
		return 0, 0, false
	}
	p.told = time.Now()
	have, all = p.sums()
	return have, all, true
}

// bytes is how much was moved.
func (p *pullProgress) bytes() int64 {
	_, all := p.sums()
	return all
}

func (p *pullProgress) sums() (have, all int64) {
	for _, l := range p.layers {
		have, all = have+l[0], all+l[1]
	}
	return have, all
}

// refusals are parts of what registries and engines say when the job, or its credentials, are why an image cannot be had.
var refusals = []string{
	"manifest unknown", "not found", "no such image", "repository does not exist", "pull access denied", "denied", "unauthorized",
	"authentication required", "no basic auth credentials", "no matching manifest", "does not match the specified platform",
	"invalid reference format", "name unknown",
}

// mistakes are statuses that say so.
var mistakes = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}

// pullError says whose mistake it is that an image cannot be pulled.
func (p *puller) pullError(ctx context.Context, i *containers.Image, err error, authenticated bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text := strings.ToLower(err.Error())
	mistaken := slices.Contains(mistakes, engine.Status(err)) || slices.ContainsFunc(refusals, func(part string) bool { return strings.Contains(text, part) })
	if !mistaken {
		return fmt.Errorf("pulling image %s%s: %w", i.Name, forPlatform(i), &executor.PullError{Image: i.Name, Err: err})
	}
	hint := "correct its name"
	switch {
	case strings.Contains(text, "manifest for") || strings.Contains(text, "platform"):
		hint = "correct its name, or name a platform that it is made for"
	case strings.Contains(text, "denied") || strings.Contains(text, "auth"):
		hint = "log in with `docker login " + registryOf(i.Name) + "`, or set DOCKER_AUTH_CONFIG; a registry may say so too when there is no such image"
		if authenticated {
			hint = "the credentials that were sent may not read it, or there is no such image"
		}
	}
	return &executor.UserError{Message: fmt.Sprintf("image %s%s cannot be pulled: %v", i.Name, forPlatform(i), err), Hint: hint, Err: &executor.PullError{Image: i.Name, Err: err}}
}

// credentials are those for the registry of an image, and where they are from.
func (p *puller) credentials(ctx context.Context, name string) (auth engine.Auth, from string, err error) {
	found, err := login.Find(ctx, p.job, p.setup.Env, engine.Home(p.setup.Env), name)
	if found == nil {
		return engine.Auth{}, "", err
	}
	return found.Auth(), found.From, nil
}

func registryOf(name string) string {
	return containers.ParseName(name).Registry
}

// checkImageName refuses what would not be understood as the name of an image.
func checkImageName(name string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) || strings.Contains(name, "://") ||
		strings.HasSuffix(name, ":") || strings.HasSuffix(name, "@") {
		return &executor.UserError{Message: fmt.Sprintf("%q is not the name of an image", name), Hint: "write registry/path:tag, or a name of Docker's own registry"}
	}
	return nil
}

// platform is the system and the processor that an image is for; nil is the engine's own.
type platform struct{ OS, Architecture, Variant string }

// String is system/architecture/variant; "" is the engine's own.
func (p *platform) String() string {
	if p == nil {
		return ""
	}
	return path.Join(p.OS, p.Architecture, p.Variant)
}

// parsePlatform reads system/architecture/variant; nil is the engine's own.
func parsePlatform(text string) (*platform, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(strings.ToLower(text), "/")
	if len(parts) == 1 { // a system or an architecture, as Docker reads it
		if parts[0] == "linux" {
			parts = []string{"linux", runtime.GOARCH}
		} else {
			parts = []string{"linux", parts[0]}
		}
	}
	if len(parts) > 3 || slices.Contains(parts, "") {
		return nil, &executor.UserError{Message: fmt.Sprintf("%q is not a platform", text), Hint: "write system/architecture, such as linux/arm64"}
	}
	p := &platform{OS: parts[0], Architecture: cmp.Or(architectures[parts[1]], parts[1])}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// architectures are other names of them.
var architectures = map[string]string{"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64", "armhf": "arm", "i386": "386"}
