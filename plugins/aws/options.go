package main

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Options are those of plugin_config. The first four are those of fleeting's plugin for AWS.
type Options struct {
	Name            string `json:"name"` // the Auto Scaling group; empty: machines by shape
	Profile         string `json:"profile"`
	ConfigFile      string `json:"config_file"`
	CredentialsFile string `json:"credentials_file"`
	Region          string `json:"region"`

	// AdjustGroup lets the plugin change the Auto Scaling group where that is needed to keep jobs; nil is true.
	AdjustGroup *bool `json:"adjust_group"`
	// LifecycleHooks are the hooks of the Auto Scaling group that the plugin completes.
	LifecycleHooks []string `json:"lifecycle_hooks"`

	LaunchTemplate        string   `json:"launch_template"` // its name, or its id
	LaunchTemplateVersion string   `json:"launch_template_version"`
	Subnets               []string `json:"subnets"`
	MaxInstances          int      `json:"max_instances"`
	Shapes                []Shape  `json:"shapes"`

	// EventsQueue is the URL of an SQS queue with events of EventBridge.
	EventsQueue      string `json:"events_queue"`
	DrainOnRebalance bool   `json:"drain_on_rebalance"`

	// VolumeType is that of EBS volumes (default: gp3), and VolumeKMSKey their key (empty: the account's default for EBS). VolumeIOPS and VolumeThroughput (MiB/s) are what
	// they are to have beyond their type; 0: nothing.
	VolumeType       string `json:"volume_type"`
	VolumeIOPS       int    `json:"volume_iops"`
	VolumeThroughput int    `json:"volume_throughput"`
	VolumeKMSKey     string `json:"volume_kms_key"`

	HostKeys          string  `json:"host_keys"`
	InstanceConnect   *bool   `json:"instance_connect"` // nil: unless the credentials are static
	RequestsPerSecond float64 `json:"requests_per_second"`
}

// Shape is a kind of machine that can be asked for.
type Shape struct {
	Name           string   `json:"name"`           // empty: the first instance type
	InstanceTypes  []string `json:"instance_types"` // any of them will do
	OnDemand       *bool    `json:"on_demand"`      // nil is true
	Spot           bool     `json:"spot"`
	Price          float64  `json:"price"`           // USD for an hour on demand; 0: not known
	SpotPrice      float64  `json:"spot_price"`      // 0: EC2 is asked
	SuspendedPrice float64  `json:"suspended_price"` // of its EBS volumes, USD for an hour while it is stopped
	DiskGiB        float64  `json:"disk_gib"`        // that of the launch template; 0: not known
}

func (s Shape) onDemand() bool { return s.OnDemand == nil || *s.OnDemand }

// Where host keys come from.
const (
	hostKeysConsole  = ""         // the console, if it shows them, else the key of the first connection
	hostKeysRequired = "required" // the console: a machine is not ready before it shows them
	hostKeysFirstUse = "first-use"
)

const (
	defaultMaxInstances      = 1000
	defaultRequestsPerSecond = 10
)

//go:embed schema.json
var optionsSchema string

// check completes options, and returns what is wrong with them.
func (o *Options) check() error {
	switch {
	case o.Name == "" && o.LaunchTemplate == "":
		return errors.New(`set the option "name" to an Auto Scaling group, or "launch_template" and "shapes" to have machines made by shape`)
	case o.Name != "" && (o.LaunchTemplate != "" || len(o.Shapes) > 0 || len(o.Subnets) > 0):
		return errors.New(`the option "name" excludes "launch_template", "shapes" and "subnets": an Auto Scaling group has its own`)
	case o.Name == "" && len(o.Shapes) == 0:
		return errors.New(`the option "shapes" must list at least one kind of machine`)
	case o.Name == "" && len(o.LifecycleHooks) > 0:
		return errors.New(`the option "lifecycle_hooks" requires "name"`)
	case !slices.Contains([]string{hostKeysConsole, hostKeysRequired, hostKeysFirstUse}, o.HostKeys):
		return fmt.Errorf(`the option "host_keys" must be %q or %q, not %q`, hostKeysRequired, hostKeysFirstUse, o.HostKeys)
	case o.MaxInstances < 0 || o.RequestsPerSecond < 0:
		return errors.New(`the options "max_instances" and "requests_per_second" must not be negative`)
	}
	if o.MaxInstances == 0 {
		o.MaxInstances = defaultMaxInstances
	}
	if o.RequestsPerSecond == 0 {
		o.RequestsPerSecond = defaultRequestsPerSecond
	}
	if o.LaunchTemplateVersion == "" {
		o.LaunchTemplateVersion = "$Default"
	}
	if err := o.checkVolumes(); err != nil {
		return err
	}
	return o.checkShapes()
}

// What a gp3 volume has in any case: operations a second, and MiB/s.
const (
	leastIOPS       = 3000
	leastThroughput = 125
)

func (o *Options) checkVolumes() error {
	if o.VolumeType == "" {
		o.VolumeType = string(types.VolumeTypeGp3)
	}
	kind := types.VolumeType(o.VolumeType)
	provisioned := kind == types.VolumeTypeIo1 || kind == types.VolumeTypeIo2
	switch _, known := sizes[kind]; {
	case !known:
		return fmt.Errorf(`the option "volume_type" must be one of %v, not %q`, slices.Sorted(maps.Keys(sizes)), o.VolumeType)
	case o.VolumeIOPS < 0 || o.VolumeThroughput < 0 || o.VolumeIOPS > math.MaxInt32 || o.VolumeThroughput > math.MaxInt32:
		return errors.New(`the options "volume_iops" and "volume_throughput" must not be negative, nor beyond what EC2 has`)
	case provisioned && o.VolumeIOPS == 0:
		return fmt.Errorf(`the option "volume_type" %q requires "volume_iops"`, o.VolumeType)
	case !provisioned && kind != types.VolumeTypeGp3 && o.VolumeIOPS > 0:
		return fmt.Errorf(`the option "volume_iops" requires "volume_type" gp3, io1 or io2, not %q`, o.VolumeType)
	case kind == types.VolumeTypeGp3 && o.VolumeIOPS > 0 && o.VolumeIOPS < leastIOPS, o.VolumeThroughput > 0 && o.VolumeThroughput < leastThroughput:
		return fmt.Errorf(`the options "volume_iops" and "volume_throughput" must be at least %d and %d, which every gp3 volume has`, leastIOPS, leastThroughput)
	case kind != types.VolumeTypeGp3 && o.VolumeThroughput > 0:
		return fmt.Errorf(`the option "volume_throughput" requires "volume_type" gp3, not %q`, o.VolumeType)
	}
	return nil
}

func (o *Options) checkShapes() error {
	named := map[string]bool{}
	for i := range o.Shapes {
		s := &o.Shapes[i]
		if len(s.InstanceTypes) == 0 {
			return fmt.Errorf(`the shape %d (%q) must list its "instance_types"`, i+1, s.Name)
		}
		if s.Name == "" {
			s.Name = s.InstanceTypes[0]
		}
		switch {
		case named[s.Name]:
			return fmt.Errorf("two shapes have the name %q", s.Name)
		case !s.onDemand() && !s.Spot:
			return fmt.Errorf(`the shape %q is neither "on_demand" nor "spot"`, s.Name)
		case s.Price < 0 || s.SpotPrice < 0 || s.SuspendedPrice < 0 || s.DiskGiB < 0:
			return fmt.Errorf("the shape %q has a negative price or disk", s.Name)
		}
		named[s.Name] = true
	}
	return nil
}
