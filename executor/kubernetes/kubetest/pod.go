//go:build linux

package kubetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// podRun is a pod in the engine.
type podRun struct {
	node *Node
	pod  *corev1.Pod // as it was given
	ctx  context.Context

	mu     sync.Mutex
	status corev1.PodStatus
	ids    map[string]string // containers in the engine by name; "" is the one with the network
	ended  chan struct{}     // closed when the pod is to be removed
	grace  int64             // in seconds
	gone   chan struct{}     // closed when its containers have ended, and it is removed
}

func newPodRun(ctx context.Context, n *Node, pod *corev1.Pod) *podRun {
	p := &podRun{node: n, pod: pod, ctx: ctx, ids: map[string]string{}, ended: make(chan struct{}), gone: make(chan struct{}), status: *pod.Status.DeepCopy()}
	p.status.Phase = corev1.PodPending
	now := metav1.Now()
	p.status.StartTime, p.status.HostIP = &now, "127.0.0.1"
	for _, c := range pod.Spec.InitContainers {
		p.status.InitContainerStatuses = append(p.status.InitContainerStatuses, waitingStatus(&c))
	}
	for _, c := range pod.Spec.Containers {
		p.status.ContainerStatuses = append(p.status.ContainerStatuses, waitingStatus(&c))
	}
	return p
}

func waitingStatus(c *corev1.Container) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
}

// end asks for the end of the pod, once.
func (p *podRun) end(grace int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
	default:
		p.grace = grace
		close(p.ended)
	}
}

// run is the life of the pod.
func (p *podRun) run() {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	go func() {
		select {
		case <-p.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	if p.start(ctx) == nil {
		p.attend(ctx)
	}
	<-p.ended
	p.remove()
	close(p.gone)
}

// start runs the init containers, one after the other, and starts the others.
func (p *podRun) start(ctx context.Context) error {
	p.send()
	network, err := p.create(ctx, "", &container.Config{Image: enginetest.Image, Cmd: []string{"sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"}, Hostname: hostnameOf(p.pod)}, p.sandbox())
	if err == nil {
		_, err = p.node.engine.ContainerStart(ctx, network, client.ContainerStartOptions{})
	}
	if err == nil {
		err = p.address(ctx, network)
	}
	if err != nil {
		p.wait(p.pod.Spec.Containers[0].Name, "CreatePodSandboxError", err)
		return err
	}
	for i := range p.pod.Spec.InitContainers {
		c := &p.pod.Spec.InitContainers[i]
		if err := p.begin(ctx, c); err != nil {
			return err
		}
		if code, err := p.waitEnd(ctx, c.Name); err != nil || code != 0 {
			p.finish()
			return errors.Join(err, fmt.Errorf("init container %s: %d", c.Name, code))
		}
	}
	var problems []error
	for i := range p.pod.Spec.Containers {
		problems = append(problems, p.begin(ctx, &p.pod.Spec.Containers[i]))
	}
	return errors.Join(problems...)
}

// address finds out the address of the pod.
func (p *podRun) address(ctx context.Context, network string) error {
	found, err := p.node.engine.ContainerInspect(ctx, network, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range found.Container.NetworkSettings.Networks {
		if n.IPAddress.IsValid() {
			p.status.PodIP, p.status.PodIPs = n.IPAddress.String(), []corev1.PodIP{{IP: n.IPAddress.String()}}
		}
	}
	return nil
}

// sandbox is the configuration of the container with the network.
func (p *podRun) sandbox() *container.HostConfig {
	host := &container.HostConfig{}
	for _, alias := range p.pod.Spec.HostAliases {
		for _, name := range alias.Hostnames {
			host.ExtraHosts = append(host.ExtraHosts, name+":"+alias.IP)
		}
	}
	return host
}

func hostnameOf(pod *corev1.Pod) string {
	const longest = 63
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	return name[:min(len(name), longest)]
}

// attend waits until the containers have ended.
func (p *podRun) attend(ctx context.Context) {
	p.mu.Lock()
	p.status.Phase = corev1.PodRunning
	p.mu.Unlock()
	p.send()
	var wg sync.WaitGroup
	for _, c := range p.pod.Spec.Containers {
		wg.Go(func() { _, _ = p.waitEnd(ctx, c.Name) })
	}
	wg.Wait()
	if ctx.Err() == nil {
		p.finish()
	}
}

// finish says how the pod has ended.
func (p *podRun) finish() {
	p.mu.Lock()
	p.status.Phase = corev1.PodSucceeded
	for _, s := range slices.Concat(p.status.InitContainerStatuses, p.status.ContainerStatuses) {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			p.status.Phase = corev1.PodFailed
		}
	}
	p.mu.Unlock()
	p.send()
}

// begin makes a container and starts it. The error is in the pod's status, too.
func (p *podRun) begin(ctx context.Context, c *corev1.Container) error {
	if err := p.pull(ctx, c); err != nil {
		p.wait(c.Name, "ErrImagePull", err)
		return err
	}
	config, host, err := p.configure(ctx, c)
	if err != nil {
		p.wait(c.Name, "CreateContainerConfigError", err)
		return err
	}
	id, err := p.create(ctx, c.Name, config, host)
	if err != nil {
		p.wait(c.Name, "CreateContainerError", err)
		return err
	}
	found, err := p.node.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err == nil {
		_, err = p.node.engine.ContainerStart(ctx, id, client.ContainerStartOptions{})
	}
	if err != nil {
		const cannotRun = 128
		p.set(c.Name, func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: cannotRun, Message: err.Error()}}
		})
		return err
	}
	started := true
	p.set(c.Name, func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
		s.Ready, s.Started, s.ContainerID, s.ImageID = true, &started, "docker://"+id, found.Container.Image
	})
	return nil
}

// create makes a container in the engine.
func (p *podRun) create(ctx context.Context, name string, config *container.Config, host *container.HostConfig) (string, error) {
	config.Labels = map[string]string{nodeLabel: p.node.Name}
	host.Runtime = ""
	if class := p.pod.Spec.RuntimeClassName; class != nil && name != "" {
		host.Runtime = *class
	}
	made, err := p.node.engine.ContainerCreate(ctx, client.ContainerCreateOptions{Config: config, HostConfig: host, Name: strings.Trim(string(p.pod.UID)+"-"+name, "-")})
	if err == nil {
		p.mu.Lock()
		p.ids[name] = made.ID
		p.mu.Unlock()
	}
	return made.ID, err
}

// configure says how a container is made.
func (p *podRun) configure(ctx context.Context, c *corev1.Container) (*container.Config, *container.HostConfig, error) {
	env := map[string]string{}
	config := &container.Config{Image: c.Image, WorkingDir: c.WorkingDir, OpenStdin: c.Stdin, StdinOnce: c.StdinOnce, Tty: c.TTY}
	for _, e := range c.Env {
		env[e.Name] = expand(e.Value, env)
		config.Env = append(config.Env, e.Name+"="+env[e.Name])
	}
	for _, word := range c.Command {
		config.Entrypoint = append(config.Entrypoint, expand(word, env))
	}
	for _, word := range c.Args {
		config.Cmd = append(config.Cmd, expand(word, env))
	}
	if c.Command != nil && c.Args == nil { // the image's own is not used then
		config.Cmd = []string{}
	}
	init := false
	host := &container.HostConfig{NetworkMode: container.NetworkMode("container:" + p.id("")), Init: &init}
	if limit, is := c.Resources.Limits[corev1.ResourceMemory]; is {
		host.Memory, host.MemorySwap = limit.Value(), limit.Value()
	}
	if limit, is := c.Resources.Limits[corev1.ResourceCPU]; is {
		const nano = 1_000_000
		host.NanoCPUs = limit.MilliValue() * nano
	}
	p.rights(c, config, host)
	for _, m := range c.VolumeMounts {
		from, err := p.volume(ctx, m.Name)
		if err != nil {
			return nil, nil, err
		}
		bind := filepath.Join(from, m.SubPath) + ":" + m.MountPath
		if m.ReadOnly {
			bind += ":ro"
		}
		host.Binds = append(host.Binds, bind)
	}
	return config, host, nil
}

// rights sets the user of a container, and what it may.
func (p *podRun) rights(c *corev1.Container, config *container.Config, host *container.HostConfig) {
	user, group := (*int64)(nil), (*int64)(nil)
	if of := p.pod.Spec.SecurityContext; of != nil {
		user, group = of.RunAsUser, of.RunAsGroup
		for _, id := range of.SupplementalGroups {
			host.GroupAdd = append(host.GroupAdd, strconv.FormatInt(id, 10))
		}
	}
	if of := c.SecurityContext; of != nil {
		if of.RunAsUser != nil {
			user = of.RunAsUser
		}
		if of.RunAsGroup != nil {
			group = of.RunAsGroup
		}
		host.Privileged = of.Privileged != nil && *of.Privileged
		host.ReadonlyRootfs = of.ReadOnlyRootFilesystem != nil && *of.ReadOnlyRootFilesystem
		if of.Capabilities != nil {
			for _, one := range of.Capabilities.Add {
				host.CapAdd = append(host.CapAdd, string(one))
			}
			for _, one := range of.Capabilities.Drop {
				host.CapDrop = append(host.CapDrop, string(one))
			}
		}
	}
	if user != nil {
		config.User = strconv.FormatInt(*user, 10)
		if group != nil {
			config.User += ":" + strconv.FormatInt(*group, 10)
		}
	}
}

// volume is the folder of this machine for a volume of the pod.
func (p *podRun) volume(ctx context.Context, name string) (string, error) {
	i := slices.IndexFunc(p.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		return "", fmt.Errorf("there is no volume %s", name)
	}
	v := &p.pod.Spec.Volumes[i]
	dir := filepath.Join(p.node.dir, string(p.pod.UID), name)
	switch {
	case v.HostPath != nil:
		return v.HostPath.Path, nil
	case v.EmptyDir != nil:
		return dir, forAll(dir)
	case v.Secret != nil:
		return dir, p.fill(ctx, dir, "secrets", v.Secret.SecretName, v.Secret.Items)
	case v.ConfigMap != nil:
		return dir, p.fill(ctx, dir, "configmaps", v.ConfigMap.Name, v.ConfigMap.Items)
	}
	return "", fmt.Errorf("volumes of the kind of %s are not known here", name)
}

func forAll(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777)
}

// fill writes the files of a secret or a config map.
func (p *podRun) fill(ctx context.Context, dir, kind, name string, items []corev1.KeyToPath) error {
	data, err := p.node.api.data(ctx, p.pod.Namespace, kind, name)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		file := filepath.Join(dir, item.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data[item.Key], 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// pull makes the engine have an image.
func (p *podRun) pull(ctx context.Context, c *corev1.Container) error {
	_, err := p.node.engine.ImageInspect(ctx, c.Image)
	if err == nil && c.ImagePullPolicy != corev1.PullAlways {
		return nil
	}
	if c.ImagePullPolicy == corev1.PullNever {
		return fmt.Errorf("container image %q is not present with pull policy of Never", c.Image)
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return err
	}
	auth, err := p.auth(ctx, c.Image)
	if err != nil {
		return err
	}
	response, err := p.node.engine.ImagePull(ctx, c.Image, client.ImagePullOptions{RegistryAuth: auth})
	if err != nil {
		return err
	}
	defer response.Close()
	for in := json.NewDecoder(response); ; {
		var message struct{ Error string }
		switch err := in.Decode(&message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case message.Error != "":
			return errors.New(message.Error)
		}
	}
}

// auth is the login for an image in the pod's secrets.
func (p *podRun) auth(ctx context.Context, image string) (string, error) {
	for _, ref := range p.pod.Spec.ImagePullSecrets {
		data, err := p.node.api.data(ctx, p.pod.Namespace, "secrets", ref.Name)
		if err != nil {
			continue // as a node does
		}
		var config struct {
			Auths map[string]struct{ Username, Password string }
		}
		if err := json.Unmarshal(data[corev1.DockerConfigJsonKey], &config); err != nil {
			return "", err
		}
		for place, found := range config.Auths {
			if strings.HasPrefix(image, place) {
				text, err := json.Marshal(registry.AuthConfig{Username: found.Username, Password: found.Password})
				return base64.URLEncoding.EncodeToString(text), err
			}
		}
	}
	return "", nil
}

// waitEnd waits for the end of a container and says how it was.
func (p *podRun) waitEnd(ctx context.Context, name string) (code int, err error) {
	id := p.id(name)
	wait := p.node.engine.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case err := <-wait.Error:
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err != nil && !cerrdefs.IsNotFound(err) {
			return 0, err
		}
	case <-wait.Result:
	}
	t := &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137, FinishedAt: metav1.Now()}
	found, err := p.node.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err == nil {
		t.ExitCode, t.Reason = int32(found.Container.State.ExitCode), "Completed"
		switch {
		case found.Container.State.OOMKilled:
			t.Reason = "OOMKilled"
		case t.ExitCode != 0:
			t.Reason = "Error"
		}
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	p.set(name, func(s *corev1.ContainerStatus) {
		s.State, s.Ready = corev1.ContainerState{Terminated: t}, false
	})
	return int(t.ExitCode), nil
}

func (p *podRun) id(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[name]
}

// wait says why a container does not start.
func (p *podRun) wait(name, reason string, err error) {
	if p.ctx.Err() != nil {
		return
	}
	p.set(name, func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: err.Error()}}
	})
}

// set changes the status of a container.
func (p *podRun) set(name string, change func(*corev1.ContainerStatus)) {
	p.mu.Lock()
	for _, all := range [][]corev1.ContainerStatus{p.status.InitContainerStatuses, p.status.ContainerStatuses} {
		for i := range all {
			if all[i].Name == name {
				change(&all[i])
			}
		}
	}
	p.mu.Unlock()
	p.send()
}

// send tells the API server of the status.
func (p *podRun) send() {
	p.mu.Lock()
	ready := corev1.ConditionTrue
	for _, s := range p.status.ContainerStatuses {
		if !s.Ready {
			ready = corev1.ConditionFalse
		}
	}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		condition := corev1.PodCondition{Type: kind, Status: ready, LastTransitionTime: metav1.Now()}
		if i := slices.IndexFunc(p.status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind }); i >= 0 {
			p.status.Conditions[i] = condition
		} else {
			p.status.Conditions = append(p.status.Conditions, condition)
		}
	}
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.pod.Name, Namespace: p.pod.Namespace, UID: p.pod.UID}, Status: *p.status.DeepCopy()}
	p.mu.Unlock()
	for range 20 {
		if err := p.node.api.putStatus(p.ctx, out); err == nil || p.ctx.Err() != nil {
			return
		}
		select { // until the pod is gone, of which the watch tells
		case <-p.ended:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// remove ends the containers, and then the pod is gone.
func (p *podRun) remove() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), time.Minute)
	defer cancel()
	p.mu.Lock()
	ids, seconds := maps.Clone(p.ids), int(p.grace)
	p.mu.Unlock()
	var wg sync.WaitGroup
	for name, id := range ids {
		wg.Go(func() {
			if seconds > 0 && name != "" {
				_, _ = p.node.engine.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
			}
			_, _ = p.node.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
		})
	}
	wg.Wait()
	_ = os.RemoveAll(filepath.Join(p.node.dir, string(p.pod.UID)))
	if p.ctx.Err() == nil {
		_ = p.node.api.forget(ctx, p.pod)
	}
}

// expand replaces $(NAME) by the value of a variable, and $$ by $, as kubelets do.
func expand(text string, env map[string]string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		out.WriteString(before)
		switch {
		case !found:
			return out.String()
		case strings.HasPrefix(rest, "$"):
			out.WriteByte('$')
			text = rest[1:]
		case strings.HasPrefix(rest, "("):
			name, after, closed := strings.Cut(rest[1:], ")")
			value, known := env[name]
			if !closed || !known {
				out.WriteByte('$')
				text = rest
				continue
			}
			out.WriteString(value)
			text = after
		default:
			out.WriteByte('$')
			text = rest
		}
	}
}
