package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/sdk/instancegroup"
)

// Options are those of the configuration. schema.json says what they mean to people.
type Options struct {
	Kubeconfig string `json:"kubeconfig"`
	Context    string `json:"context"`
	Namespace  string `json:"namespace"`

	Image          string            `json:"image"`
	Server         string            `json:"server"`
	ServerImage    string            `json:"server_image"`
	Programs       map[string]string `json:"programs"`
	Port           int               `json:"port"`
	AuthorizedKeys string            `json:"authorized_keys"`
	Reach          string            `json:"reach"`

	Shapes       []Shape         `json:"shapes"`
	Template     json.RawMessage `json:"template"`
	MaxSize      int             `json:"max_size"`
	StartTimeout int             `json:"start_timeout"` // seconds
}

// Shape is a kind of machine. Prices are for one hour; 0: not known.
type Shape struct {
	Name         string            `json:"name"`
	CPUs         float64           `json:"cpus"`
	Memory       string            `json:"memory"`
	Disk         string            `json:"disk"`
	GPUs         int               `json:"gpus"`
	GPU          string            `json:"gpu"`
	GPUResource  string            `json:"gpu_resource"`
	Arch         string            `json:"arch"`
	Zone         string            `json:"zone"`
	Image        string            `json:"image"`
	NodeSelector map[string]string `json:"node_selector"`
	RuntimeClass string            `json:"runtime_class"`
	Spot         bool              `json:"spot"`
	Price        float64           `json:"price"`
	Currency     string            `json:"currency"`

	memory, disk resource.Quantity
}

// Who is the SSH server of a machine: this program, or what is in the image.
const (
	serverBrought = "brought"
	serverOfImage = "image"
)

// How a machine is reached: through the API server, or at the pod's address.
const (
	reachForward = "forward"
	reachPod     = "pod"
)

const (
	defaultMaxSize        = 100
	defaultStartTimeout   = 600
	defaultGPUResource    = "nvidia.com/gpu"
	defaultAuthorizedKeys = ".ssh/authorized_keys" // in the home folder of the container's user
	broughtPort           = 2222                   // no user of a container needs rights for it
	sshPort               = 22
)

//go:embed schema.json
var schema string

// OptionsSchema implements instancegroup.Schemer.
func (c *cloud) OptionsSchema() string { return schema }

// wrong is an error of an option.
func wrong(err error, path ...string) error {
	return &instancegroup.OptionError{Pointer: pluginoption.Join(path...), Err: err}
}

// complete sets what is not set, and says what cannot be.
func (c *cloud) complete(inCluster bool) error {
	o := &c.Options
	if o.Server == "" {
		o.Server = serverBrought
	}
	if o.Reach == "" {
		o.Reach = reachForward
		if inCluster {
			o.Reach = reachPod
		}
	}
	if o.Port == 0 {
		o.Port = broughtPort
		if o.Server == serverOfImage {
			o.Port = sshPort
		}
	}
	if o.AuthorizedKeys == "" {
		o.AuthorizedKeys = defaultAuthorizedKeys
	}
	if o.MaxSize == 0 {
		o.MaxSize = defaultMaxSize
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		return wrong(fmt.Errorf("%q is not the name of a namespace: %s", o.Namespace, problems[0]), "namespace")
	}
	if o.Server == serverOfImage && (o.ServerImage != "" || len(o.Programs) > 0) {
		return wrong(errors.New(`the SSH server is that of the image: remove "server_image" and "programs", or set "server" to "brought"`), "server")
	}
	if err := c.readTemplate(); err != nil {
		return err
	}
	return c.completeShapes()
}

// readTemplate reads the template, whose machine container is made where there is none.
func (c *cloud) readTemplate() error {
	c.template = corev1.PodTemplateSpec{}
	if len(c.Options.Template) > 0 {
		in := json.NewDecoder(bytes.NewReader(c.Options.Template))
		in.DisallowUnknownFields()
		if err := in.Decode(&c.template); err != nil {
			return wrong(fmt.Errorf("the template is not one of a pod, with metadata and spec as Kubernetes has them: %w", err), "template")
		}
	}
	spec := &c.template.Spec
	if containerOf(spec) == nil {
		spec.Containers = append([]corev1.Container{{Name: machineContainer}}, spec.Containers...)
	}
	m := containerOf(spec)
	if c.Image != "" {
		m.Image = c.Image
	}
	if c.Server == serverBrought && len(m.Command)+len(m.Args) > 0 {
		return wrong(fmt.Errorf(`the container %q has a command of its own, in place of which the SSH server runs: remove it, or set "server" to "image"`, machineContainer), "template")
	}
	if spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyNever {
		return wrong(fmt.Errorf("the restartPolicy is %s, and a machine that has ended does not begin again: remove it", spec.RestartPolicy), "template")
	}
	return nil
}

// completeShapes reads the sizes of the shapes.
func (c *cloud) completeShapes() error {
	names := map[string]bool{}
	for i := range c.Shapes {
		s := &c.Shapes[i]
		at := func(key string) []string { return []string{"shapes", fmt.Sprint(i), key} }
		if names[s.Name] {
			return wrong(fmt.Errorf("there are two shapes with the name %q", s.Name), at("name")...)
		}
		names[s.Name] = true
		for _, size := range []struct {
			key, text string
			to        *resource.Quantity
		}{{"memory", s.Memory, &s.memory}, {"disk", s.Disk, &s.disk}} {
			if size.text == "" {
				continue
			}
			n, err := parseSize(size.text)
			if err != nil {
				return wrong(fmt.Errorf("the size %q: %w", size.text, err), at(size.key)...)
			}
			*size.to = n
		}
		if s.GPUResource == "" {
			s.GPUResource = defaultGPUResource
		}
		if s.Image == "" && containerOf(&c.template.Spec).Image == "" {
			return wrong(errors.New(`a shape without an "image" needs the option "image"`), "shapes", fmt.Sprint(i))
		}
	}
	if len(c.Shapes) == 0 && containerOf(&c.template.Spec).Image == "" {
		return wrong(errors.New("there is no image: name the one that machines have"), "image")
	}
	return nil
}

// parseSize takes the sizes of Kubernetes ("4Gi"), and those of config.toml ("4GiB").
func parseSize(text string) (resource.Quantity, error) {
	if n := len(text); n > 2 && text[n-1] == 'B' && text[n-2] == 'i' {
		text = text[:n-1]
	}
	size, err := resource.ParseQuantity(text)
	if err == nil && size.Sign() <= 0 {
		err = errors.New("it must be above 0")
	}
	return size, err
}

// offers are the shapes as the fleet knows them.
func (c *cloud) offers() (out []instancegroup.Offer) {
	for i := range c.Shapes {
		s := &c.Shapes[i]
		out = append(out, instancegroup.Offer{
			Shape: s.Name, OS: "linux", Arch: s.Arch, CPUs: s.CPUs, Memory: s.memory.Value(), Disk: s.disk.Value(), GPUs: s.GPUs, GPU: s.GPU,
			Zone: s.Zone, Spot: s.Spot, Price: s.Price, Currency: s.Currency,
		})
	}
	return out
}

// shape is the one with a name; nil is what the template says.
func (c *cloud) shape(name, zone string, spot bool) (*Shape, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // any is right
	}
	for i := range c.Shapes {
		if s := &c.Shapes[i]; s.Name == name && (zone == "" || zone == s.Zone) && (!spot || s.Spot) {
			return s, nil
		}
	}
	return nil, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("the options have no shape %q%s", name, kube.After(zone))}
}

func (o *Options) startTime() time.Duration { return time.Duration(o.StartTimeout) * time.Second }
