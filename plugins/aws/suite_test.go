package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/fleet/group/plugin/plugintest"
	"github.com/rungci/rung/internal/pluginhost"
)

// asPlugin is the program of this package with options, in a process of its own.
func asPlugin(t *testing.T, o Options) grouptest.Subject {
	t.Helper()
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return plugintest.Subject(plugin.Config{Config: pluginhost.Config{
		Name: "aws", File: os.Args[0], Options: withoutNulls(t, options), Log: slog.New(slog.DiscardHandler),
		Env: []string{plays + "=plugin", "AWS_EC2_METADATA_DISABLED=true"},
	}})
}

// withoutNulls leaves out what a configuration does not have.
func withoutNulls(t *testing.T, text []byte) json.RawMessage {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for name, value := range all {
		if value == nil {
			delete(all, name)
		}
	}
	if shapes, ok := all["shapes"].([]any); ok {
		for _, s := range shapes {
			if s.(map[string]any)["on_demand"] == nil {
				delete(s.(map[string]any), "on_demand")
			}
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// byShape are options for machines of two shapes, in all zones.
func (c *cloud) byShape(t testing.TB) Options {
	o := c.options(t)
	o.LaunchTemplate, o.Subnets = "runner", c.subnets(t)
	o.Shapes = []Shape{
		{Name: "medium", InstanceTypes: []string{"m5.large", "m5a.large"}, Price: 0.1, SuspendedPrice: 0.004, DiskGiB: 30, Spot: true},
		{InstanceTypes: []string{"c7g.xlarge"}, Price: 0.2},
	}
	return o
}

// inOneZone are options for machines of which each can have every volume, as the suite wants it.
func (c *cloud) inOneZone(t testing.TB) Options {
	o := c.byShape(t)
	o.Subnets = o.Subnets[:1]
	return o
}

// scaled are options for a new Auto Scaling group of at most so many machines.
func (c *cloud) scaled(t testing.TB, size int32) Options {
	t.Helper()
	return c.scaledIn(t, size, "eu-west-1a", "eu-west-1b")
}

func (c *cloud) scaledIn(t testing.TB, size int32, zones ...string) Options {
	t.Helper()
	_, err := c.api.scaling.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("runners"), MinSize: aws.Int32(0), MaxSize: aws.Int32(size), AvailabilityZones: zones,
		LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateName: aws.String("runner"), Version: aws.String("$Default")},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := c.options(t)
	o.Name = "runners"
	return o
}

// volumesWereTried fails the test if the suite passed because it found no volumes.
func (c *cloud) volumesWereTried(t *testing.T) {
	t.Helper()
	if c.count("AttachVolume") == 0 || c.count("DetachVolume") == 0 || c.count("DeleteVolume") == 0 {
		t.Error("the suite has not tried volumes")
	}
}

func TestThePluginPassesTheSuiteByShape(t *testing.T) {
	c := newCloud(t, motoURL(t))
	grouptest.Run(t, asPlugin(t, c.inOneZone(t)))
	c.volumesWereTried(t)
}

func TestThePluginPassesTheSuiteWithSpotMachines(t *testing.T) {
	c := newCloud(t, motoURL(t))
	o := c.inOneZone(t)
	no := false
	o.Shapes = []Shape{{InstanceTypes: []string{"m5.large"}, OnDemand: &no, Spot: true}}
	grouptest.Run(t, asPlugin(t, o))
}

func TestThePluginPassesTheSuiteWithAnAutoScalingGroup(t *testing.T) {
	c := newCloud(t, motoURL(t))
	grouptest.Run(t, asPlugin(t, c.scaledIn(t, 10, "eu-west-1a")))
	c.volumesWereTried(t)
}
