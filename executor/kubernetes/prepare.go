package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

const (
	// listenTime bounds how long the step-runner may take until it listens once its container runs, the image's entrypoint included.
	listenTime = 25 * time.Second
	// lastLines is how much is shown of what a container has said.
	lastLines = 50
)

// environment is the pod of one job.
type environment struct {
	executor *Executor
	name     string // of all of it
	at       *corev1.Pod
	bound    bool // its project is in a volume that other jobs have, too
	follower *follower
	layout   executor.Layout

	*executor.Life

	closing sync.Mutex
	closed  bool // nothing is left of it, or a successor has it
}

// preparation makes an environment.
type preparation struct {
	*environment
	job    *executor.Job
	plan   *plan
	report executor.Reporter
	said   string // what was reported last of what the pod waits for
	made   bool   // something, or nobody knows
}

// Prepare makes the pod and waits for all its containers.
func (e *Executor) Prepare(ctx context.Context, job *executor.Job, report executor.Reporter) (executor.Environment, error) {
	if err := errors.Join(job.Validate(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	if job.Image == nil {
		return nil, &executor.UserError{Message: "the job names no image, and it is to run in a pod", Hint: "write image: NAME"}
	}
	if err := errors.Join(executor.Check(e, job), e.refuse(job)); err != nil {
		return nil, err
	}
	t := e.opts.Template.clone()
	if e.opts.Adapt != nil {
		if err := e.opts.Adapt(job, &t); err != nil {
			return nil, err
		}
	}
	if err := e.begin(); err != nil {
		return nil, err
	}
	name := "rung-" + strings.ToLower(strings.Trim(strings.ReplaceAll(job.ID, "_", "-"), "-")+"-"+rand.Text()[:10])
	v := &preparation{
		environment: &environment{executor: e, name: name, Life: executor.NewLife()}, job: job, report: report,
		plan: &plan{executor: e, job: job, template: &t, name: name, tried: map[string]int{}},
	}
	v.at = &corev1.Pod{}
	v.at.Name, v.at.Namespace = name, t.Namespace
	if err := e.book.Add(e.entry(t.Namespace, name)); err != nil {
		return nil, err
	}
	v.tellPinned()
	if err := v.prepare(ctx); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		return nil, errors.Join(err, v.discard(cleanup))
	}
	return v.environment, nil
}

// discard removes what was made. A cluster that has refused everything is asked for nothing more: it may refuse that, too.
func (v *preparation) discard(ctx context.Context) error {
	if !v.made {
		v.Finish(&executor.Gone{Err: executor.ErrClosed})
		return v.executor.book.Done(v.executor.entry(v.at.Namespace, v.name))
	}
	if err := v.Close(ctx); err != nil {
		return &executor.LeftError{Err: err, Remove: v.Close}
	}
	return nil
}

// refused reports whether the cluster has certainly not made what it was asked for.
func refused(err error) bool {
	return noRight(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// tellPinned warns of users that the job asks for in vain. gitlab-runner leaves them out, too.
func (v *preparation) tellPinned() {
	tell := func(of *corev1.Container, image, asked string) {
		if pinned := v.plan.template.pinned(of); pinned != nil && asked != "" && asked != fmt.Sprint(*pinned) {
			v.report.Say(event.PhaseStarting, image, fmt.Sprintf("warning: image %s runs as the user %d, which the runner's configuration sets, and not as %q", image, *pinned, asked))
		}
	}
	tell(&v.plan.template.Build, v.job.Image.Name, cmp.Or(v.job.User, v.job.Image.User))
	for i := range v.job.Services {
		tell(&v.plan.template.Services, v.job.Services[i].Name, v.job.Services[i].User)
	}
}

// refuse refuses limits that a pod does not have.
func (e *Executor) refuse(job *executor.Job) error {
	a, b := job.Resources, job.ServiceResources
	var missing []string
	for _, limit := range []struct {
		asked bool
		name  string
	}{
		{a.PIDs+b.PIDs > 0, "processes"},
		{a.CPUSet+b.CPUSet != "", "which processors are used"},
		{a.Swap+b.Swap > 0, "swap space"},
		{a.Parent+b.Parent != "", "control groups"},
	} {
		if limit.asked {
			missing = append(missing, limit.name)
		}
	}
	if missing == nil {
		return nil
	}
	return &executor.Refusal{Level: e.opts.Level, What: fmt.Sprintf("resource limits of a pod's %s", strings.Join(missing, " and "))}
}

// prepare makes the pod until its images can be had, and waits for what is in it.
func (v *preparation) prepare(ctx context.Context) error {
	for {
		// Calls that make something are not given up when ctx ends: nobody would know whether they have.
		if err := v.logins(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		err := v.start(ctx)
		var failed *imageError
		if !errors.As(err, &failed) {
			return err
		}
		v.report.Say(event.PhasePulling, failed.image.Name, failed.Error())
		v.plan.tried[failed.container]++
		if _, more := v.plan.policy(failed.container, failed.image); !more {
			return failed.pull()
		}
		v.follower.stop()
		// The logins go with their pod, whose they are. The cluster would remove them at any time after it.
		if err := v.executor.remove(ctx, v.at.Namespace, v.name); err != nil {
			return err
		}
	}
}

// start makes the pod, once.
func (v *preparation) start(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	pod, err := v.plan.pod()
	if err != nil {
		return err
	}
	made, err := v.executor.cluster.CreatePod(context.WithoutCancel(ctx), pod)
	v.made = v.made || !refused(err)
	if err != nil {
		return v.notMade(ctx, err)
	}
	v.at, v.bound = made, v.plan.buildsBound()
	v.follower = v.executor.follow(context.WithoutCancel(ctx), made)
	if v.plan.secret != "" {
		if err := v.executor.cluster.ownSecret(ctx, made, v.plan.secret); err != nil {
			return v.executor.cluster.failed(ctx, "handing the job's logins to its pod", err)
		}
	}
	v.report.Report(event.Preparing{Phase: event.PhaseStarting, Subject: v.name})
	limit := v.executor.opts.StartWithin
	starting, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	err = v.begin(starting)
	if errors.Is(err, errLate) {
		err = fmt.Errorf("the job's pod did not start within %s%s", limit, kube.After(kube.Waiting(v.seen())))
	}
	if err != nil {
		return v.withEvents(ctx, err)
	}
	if err := v.listens(ctx); err != nil {
		return v.withEvents(ctx, err)
	}
	if err := v.lay(ctx); err != nil {
		return err
	}
	go v.watch()
	go v.Attend(v.executor.setup.Lease, v.Connect)
	v.report.Report(event.Preparing{Phase: event.PhaseStarting, Subject: v.name, Done: true})
	return v.awaitServices(ctx)
}

var errLate = errors.New("the pod's time is over")

// notMade explains why the cluster does not take a pod: what a job asks for may not be allowed, or not be valid.
func (v *preparation) notMade(ctx context.Context, err error) error {
	if apierrors.IsInvalid(err) {
		return &executor.UserError{
			Message: fmt.Sprintf("the Kubernetes cluster does not take the job's pod: %v", err),
			Hint:    "correct what the job asks for, or [runners.kubernetes] in the runner's configuration", Err: err,
		}
	}
	const doing = "making the job's pod"
	if apierrors.IsForbidden(err) {
		namespace := v.plan.template.Namespace
		if may, asked := v.executor.cluster.May(ctx, namespace, "create", "pods", ""); asked == nil && may {
			return fmt.Errorf("%s: the Kubernetes cluster at %s does not admit it, by a quota or a policy of the namespace %s: %w", doing, v.executor.cluster.Name, namespace, err)
		}
	}
	return v.executor.cluster.failed(ctx, doing, err)
}

// seen is the pod as it was seen last.
func (v *environment) seen() *corev1.Pod {
	pod, _, _ := v.follower.now()
	return pod
}

// await waits for something of the pod. It fails when the pod ends, and when a container of it will not start.
func (v *preparation) await(ctx context.Context, what func(*corev1.Pod) (bool, error)) error {
	for {
		pod, gone, changed := v.follower.now()
		if gone != nil {
			return gone
		}
		v.tell(pod)
		if done, err := what(pod); done || err != nil {
			return err
		}
		if err := v.trouble(pod); err != nil {
			return err
		}
		if gone := ended(pod); gone != nil {
			return gone
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tell reports what a pod waits for, once each.
func (v *preparation) tell(pod *corev1.Pod) {
	text := kube.Unscheduled(pod)
	if text == "" || text == v.said || v.executor.opts.Quiet {
		return
	}
	v.said = text
	v.report.Say(event.PhaseStarting, v.name, "warning: the pod has no node yet: "+text)
}

// begin waits until all containers of the pod have been started, and brings the step-runner.
func (v *preparation) begin(ctx context.Context) error {
	if v.executor.opts.Image == "" {
		var ready *corev1.Pod
		err := v.await(ctx, func(pod *corev1.Pod) (bool, error) {
			s := kube.StatusOf(pod.Status.InitContainerStatuses, BringContainer)
			ready = pod
			return s != nil && s.State.Running != nil, v.notBrought(ctx, pod)
		})
		if err == nil {
			err = v.stream(ctx, ready)
		}
		if err != nil {
			return cmp.Or(v.notBrought(ctx, v.seen()), err)
		}
	}
	return v.await(ctx, func(pod *corev1.Pod) (bool, error) {
		return begun(pod), v.notBrought(ctx, pod)
	})
}

// notBrought is the error of an init container that has failed; nil if it has not.
func (v *preparation) notBrought(ctx context.Context, pod *corev1.Pod) error {
	s := kube.StatusOf(pod.Status.InitContainerStatuses, BringContainer)
	if s == nil || s.State.Terminated == nil || s.State.Terminated.ExitCode == 0 || troubleOf(s) != "" {
		return nil
	}
	return fmt.Errorf("the step-runner was not brought to the job's pod: its container ended with code %d%s", s.State.Terminated.ExitCode, v.lastWords(ctx, BringContainer))
}

// begun reports whether all containers of a pod have been started, whatever has become of them.
func begun(pod *corev1.Pod) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running == nil && s.State.Terminated == nil || troubleOf(&s) != "" {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers)
}

// troubleOf is the reason for which a container has not started; "" if there is none.
func troubleOf(s *corev1.ContainerStatus) string {
	reason := ""
	if s.State.Waiting != nil {
		reason = s.State.Waiting.Reason
	} else if s.State.Terminated != nil {
		reason = s.State.Terminated.Reason
	}
	if kube.Stays(reason) {
		return reason
	}
	return ""
}

// imageError says that the image of a container cannot be had.
type imageError struct {
	container string
	image     *containers.Image
	message   string
}

func (e *imageError) Error() string {
	return fmt.Sprintf("image %s cannot be pulled: %s", e.image.Name, e.message)
}

// pull is the error for the job. The cluster does not say whose fault it is; most often the name is wrong.
func (e *imageError) pull() error {
	return &executor.UserError{
		Message: e.Error(), Hint: "correct its name, its pull policy, or the credentials for its registry: image_pull_secrets, or DOCKER_AUTH_CONFIG",
		Err: &executor.PullError{Image: e.image.Name, Err: e},
	}
}

// trouble is the error of a container that does not start; nil if there is none.
func (v *preparation) trouble(pod *corev1.Pod) error {
	t := kube.Stuck(pod)
	if t == nil {
		return nil
	}
	what := strings.TrimSpace(t.Reason + kube.After(t.Message))
	image := v.imageOf(t.Container)
	switch {
	case image == nil: // the operator's
		return fmt.Errorf("the container %s of the job's pod, of image %s, does not start: %s", t.Container, t.Image, what)
	case t.Kind == kube.Pulling && image == v.job.Image: // which brings the step-runner, too
		return &imageError{BuildContainer, image, what}
	case t.Kind == kube.Pulling:
		return &imageError{t.Container, image, what}
	case t.Kind == kube.Misspelt:
		return &executor.UserError{Message: fmt.Sprintf("%q is not the name of an image: %s", t.Image, what), Hint: "correct it"}
	case t.Kind == kube.Starting && t.Container == BringContainer:
		return &executor.UserError{
			Message: fmt.Sprintf("image %s has no shell, by which the step-runner could be brought: %s", t.Image, what),
			Hint:    "use an image with sh, or have the runner's operator name an image that has the step-runner: helper_image",
		}
	case t.Kind == kube.Starting:
		return &executor.UserError{
			Message: fmt.Sprintf("the container of image %s cannot be started: %s", t.Image, what), Hint: "correct its entrypoint, command, user or platform",
		}
	}
	return fmt.Errorf("the container %s of the job's pod does not start: %s", t.Container, what)
}

// imageOf is the image of a container as the job names it; nil if it is none of the job's.
func (v *preparation) imageOf(container string) *containers.Image {
	if container == BuildContainer || container == BringContainer && v.executor.opts.Image == "" {
		return v.job.Image
	}
	for i := range v.job.Services {
		if container == fmt.Sprint(ServicePrefix, i) {
			return &v.job.Services[i].Image
		}
	}
	return nil
}

// listens waits until the step-runner in the job's container does.
func (v *preparation) listens(ctx context.Context) error {
	within, cancel := context.WithTimeoutCause(ctx, listenTime, fmt.Errorf("the step-runner in the job's container did not start within %s", listenTime))
	defer cancel()
	said := &container.Said{}
	ready, ended, unread := said.Ready(), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		if err := v.executor.cluster.copyLogs(within, v.seen(), BuildContainer, said); err != nil {
			unread <- err
		}
	}()
	failing := make(chan error, 1)
	go func() {
		failing <- v.await(within, func(pod *corev1.Pod) (bool, error) {
			s := kube.StatusOf(pod.Status.ContainerStatuses, BuildContainer)
			return s != nil && s.State.Terminated != nil, nil
		})
	}()
	select {
	case <-ready:
		said.ReportEntrypoint(v.report, v.job.Image.Name)
		return nil
	case err := <-failing:
		if err == nil {
			select { // the rest of what it has said
			case <-ended:
			case <-within.Done():
			}
			code := kube.StatusOf(v.seen().Status.ContainerStatuses, BuildContainer).State.Terminated.ExitCode
			err = v.notReady(fmt.Sprintf("the job's container ended with code %d before its step-runner listened", code), said)
		}
		return err
	case err := <-unread:
		return v.executor.cluster.failed(ctx, "reading the log of the job's container", err)
	case <-within.Done():
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return v.notReady(context.Cause(within).Error(), said)
	}
}

// notReady is the error of a container whose step-runner does not listen: most often because of the image's entrypoint, which must run the
// command that it is given.
func (v *preparation) notReady(what string, said *container.Said) error {
	if text := said.String(); text != "" {
		what += "; it said:\n" + text
	}
	return &executor.UserError{
		Message: fmt.Sprintf("image %s: %s", v.job.Image.Name, what),
		Hint:    "the image's entrypoint must run the command that it is given; entrypoint: [\"\"] does without it",
	}
}

// lay finds out where things are, and what steps get of the image.
func (v *preparation) lay(ctx context.Context) error {
	project := path.Join(v.plan.builds(), v.job.ProjectName)
	v.layout = executor.Layout{Name: v.name, Project: project, Temp: project + ".tmp", Bin: binFolder}
	pod := v.seen()
	for _, name := range append([]string{BuildContainer}, v.serviceContainers()...) {
		if s := kube.StatusOf(pod.Status.ContainerStatuses, name); s != nil {
			v.layout.Images = append(v.layout.Images, foundImage(s.ImageID))
		}
	}
	if v.job.ImageEnv { // the entrypoint may have changed them
		return nil
	}
	env, err := v.files().Environ(ctx)
	if err != nil {
		return v.explain(ctx, "asking for the variables of the job's container", err)
	}
	v.layout.Env = imageEnv(env)
	return nil
}

// foundImage is an image as nodes name it: "registry/name@sha256:…", or its digest alone.
func foundImage(id string) executor.FoundImage {
	if _, name, is := strings.Cut(id, "://"); is {
		id = name
	}
	_, digest, named := strings.Cut(id, "@")
	if !named {
		return executor.FoundImage{ID: id}
	}
	return executor.FoundImage{ID: digest, Pull: id}
}

// imageEnv is the environment that a container gives its programs, for steps, which get nothing by themselves. What a run has of its own, and
// what a node makes up, is left out.
func imageEnv(env []string) map[string]string {
	out := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "HOSTNAME", "PWD", "TERM":
		default:
			out[name] = value
		}
	}
	return out
}

// withEvents adds what the cluster has said of the pod.
func (v *environment) withEvents(ctx context.Context, err error) error {
	text := v.events(ctx)
	var user *executor.UserError
	var failed *imageError
	switch {
	case text == "" || ctx.Err() != nil || errors.As(err, &failed):
		return err
	case errors.As(err, &user):
		user.Message += text
		return err
	}
	return fmt.Errorf("%w%s", err, text)
}

// events are the warnings that the cluster has about the pod, for the end of a message.
func (v *environment) events(ctx context.Context) string {
	if v.executor.opts.Quiet {
		return ""
	}
	all, err := v.executor.cluster.events(ctx, v.at)
	if err != nil {
		return fmt.Sprintf("\nthe events of the pod cannot be read: %v", err)
	}
	var text strings.Builder
	for _, e := range all {
		if e.Type == corev1.EventTypeWarning {
			fmt.Fprintf(&text, "\n  %s: %s", cmp.Or(e.Reason, "Warning"), strings.TrimSpace(e.Message))
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return "\nevents of the pod:" + text.String()
}
