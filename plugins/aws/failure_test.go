package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rungci/rung/fleet/group"
)

// These need no moto: the answers are the test's.

func TestErrorsOfAWSHaveTheirKind(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		status int
		code   string
		kind   error
	}{
		{400, "InsufficientInstanceCapacity", group.ErrQuota}, {400, "VcpuLimitExceeded", group.ErrQuota}, {400, "InstanceLimitExceeded", group.ErrQuota},
		{403, "UnauthorizedOperation", group.ErrUnauthorised}, {401, "AuthFailure", group.ErrUnauthorised}, {403, "ExpiredToken", group.ErrUnauthorised},
		{400, "InvalidInstanceID.NotFound", group.ErrNotFound}, {400, "InvalidLaunchTemplateName.NotFoundException", group.ErrNotFound},
		{503, "RequestLimitExceeded", group.ErrTransient}, {400, "Throttling", group.ErrTransient}, {500, "InternalError", group.ErrTransient}, {503, "AnythingElse", group.ErrTransient},
		{400, "IdempotentParameterMismatch", group.ErrUncertain}, {400, "UnsupportedOperation", group.ErrUnsupported}, {400, "InvalidParameterValue", nil},
		{400, "VolumeInUse", group.ErrInUse}, {400, "InvalidVolume.NotFound", group.ErrNotFound}, {400, "InvalidVolume.ZoneMismatch", group.ErrUnsupported},
		{400, "AttachmentLimitExceeded", group.ErrQuota}, {500, "InsufficientVolumeCapacity", group.ErrQuota}, {400, "ConcurrentTagAccess", group.ErrTransient}, {400, "IncorrectState", nil},
	} {
		c := newCloud(t, nil)
		a, err := openAPI(t.Context(), c.options(t))
		if err != nil {
			t.Fatal(err)
		}
		a.limiter.Tries = 1
		for service, do := range map[string]func() error{
			"DescribeInstances": func() error { _, err := call(t.Context(), a, a.ec2.DescribeInstances, describeAll()); return err },
			"SuspendProcesses": func() error {
				_, err := call(t.Context(), a, a.scaling.SuspendProcesses, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String("g")})
				return err
			},
			"SendSSHPublicKey": func() error { _, err := call(t.Context(), a, a.connect.SendSSHPublicKey, keyInput()); return err },
		} {
			c.fault(service, 1, refuse(one.status, one.code))
			err := do()
			for _, kind := range []error{group.ErrQuota, group.ErrUnauthorised, group.ErrNotFound, group.ErrTransient, group.ErrUncertain, group.ErrUnsupported, group.ErrInUse} {
				if errors.Is(err, kind) != (kind == one.kind) {
					t.Errorf("%s, %s with status %d: %v", service, one.code, one.status, err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), service+": "+one.code+": refused by the test") {
				t.Errorf("the text is %v", err)
			}
			if want := one.status >= 500 && one.kind == group.ErrTransient && one.code != "RequestLimitExceeded"; errors.Is(err, errLost) != want {
				t.Errorf("%s: the answer counts as lost: %t", one.code, !want)
			}
		}
	}
}

func keyInput() *ec2instanceconnect.SendSSHPublicKeyInput {
	return &ec2instanceconnect.SendSSHPublicKeyInput{InstanceId: aws.String("i-1"), InstanceOSUser: aws.String("ci"), SSHPublicKey: aws.String("key")}
}

func TestWhatIsWrongWithOptionsIsSaid(t *testing.T) {
	t.Parallel()
	no := false
	shapes := []Shape{{InstanceTypes: []string{"m5.large"}}}
	for want, o := range map[string]Options{
		`set the option "name" to an Auto Scaling group, or "launch_template"`: {},
		`the option "name" excludes "launch_template"`:                         {Name: "g", LaunchTemplate: "t"},
		`the option "shapes" must list at least one`:                           {LaunchTemplate: "t"},
		`"lifecycle_hooks" requires "name"`:                                    {LaunchTemplate: "t", Shapes: shapes, LifecycleHooks: []string{"h"}},
		`"host_keys" must be "required" or "first-use", not "made-up"`:         {Name: "g", HostKeys: "made-up"},
		`must not be negative`:                                                 {Name: "g", MaxInstances: -1},
		`the shape 1 ("s") must list its "instance_types"`:                     {LaunchTemplate: "t", Shapes: []Shape{{Name: "s"}}},
		`two shapes have the name "m5.large"`:                                  {LaunchTemplate: "t", Shapes: append(shapes, Shape{Name: "m5.large", InstanceTypes: []string{"x"}})},
		`is neither "on_demand" nor "spot"`:                                    {LaunchTemplate: "t", Shapes: []Shape{{InstanceTypes: []string{"x"}, OnDemand: &no}}},
		`has a negative price or disk`:                                         {LaunchTemplate: "t", Shapes: []Shape{{InstanceTypes: []string{"x"}, Price: -1}}},
		`"volume_type" must be one of [gp2 gp3`:                                {Name: "g", VolumeType: "gp4"},
		`"volume_type" "io2" requires "volume_iops"`:                           {Name: "g", VolumeType: "io2"},
		`"volume_iops" requires "volume_type" gp3`:                             {Name: "g", VolumeType: "st1", VolumeIOPS: 100},
		`"volume_throughput" requires "volume_type"`:                           {Name: "g", VolumeType: "io2", VolumeIOPS: 100, VolumeThroughput: 200},
		`must be at least 3000 and 125`:                                        {Name: "g", VolumeIOPS: 1000},
		`"volume_throughput" must not be negative`:                             {Name: "g", VolumeThroughput: -1},
	} {
		o.Region = "eu-west-1"
		if _, err := tryOpen(t, o, group.Settings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestWhatIsWrongWithTheConfigurationOfAWSIsSaid(t *testing.T) {
	t.Parallel()
	c := newCloud(t, nil)
	o := c.options(t)
	o.Name = "g"
	for want, change := range map[string]func(*Options, *group.Settings){
		"no credentials of AWS":               func(o *Options, _ *group.Settings) { o.CredentialsFile = o.ConfigFile + ".none" },
		"made-up":                             func(o *Options, _ *group.Settings) { o.Profile = "made-up" },
		"use_static_credentials needs":        func(_ *Options, s *group.Settings) { s.UseStaticCredentials = true },
		"set key_path in connector_config":    func(_ *Options, s *group.Settings) { s.OS = "windows" },
		"without instance_connect no machine": func(o *Options, _ *group.Settings) { o.InstanceConnect = new(bool) },
		"the static credentials are a password": func(o *Options, s *group.Settings) {
			yes := true
			o.InstanceConnect, s.UseStaticCredentials, s.Password = &yes, true, "x"
		},
	} {
		changed, settings := o, group.Settings{}
		change(&changed, &settings)
		if _, err := tryOpen(t, changed, settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestTheSchemaHasTheOptions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema, options any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	yes := true
	full, err := json.Marshal(Options{
		AdjustGroup: &yes, InstanceConnect: &yes, LifecycleHooks: []string{"h"}, Subnets: []string{"s"}, Shapes: []Shape{{Name: "n", InstanceTypes: []string{"t"}, OnDemand: &yes}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(full, &options); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("options.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("options.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(options); err != nil {
		t.Error("options are not in the schema: ", err)
	}
	named := func(v any) map[string]any { m, _ := v.(map[string]any); return m }
	has := named(named(schema)["properties"])
	if got, want := len(has), len(named(options)); got != want {
		t.Errorf("the schema has %d options, and the plugin %d", got, want)
	}
	shape := named(named(named(has["shapes"])["items"])["properties"])
	if got, want := len(shape), len(named(named(options)["shapes"].([]any)[0])); got != want {
		t.Errorf("the schema has %d options of shapes, and the plugin %d", got, want)
	}
}

func TestACloudThatLiesIsNotBelieved(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	c.fault("DescribeInstances", 1, reply("<DescribeInstancesResponse><reservationSet>")) // cut off
	c.fault("DescribeInstances", 1, func(*cloud, apiCall, func() answer) (answer, bool) {
		return xmlAnswer(502, "<html>bad gateway</html>"), true
	})
	g.list(t)
	next := 0
	c.fault("DescribeInstances", 2*maxPages, func(*cloud, apiCall, func() answer) (answer, bool) {
		next++
		return xmlAnswer(200, "<DescribeInstancesResponse><reservationSet/><nextToken>more</nextToken></DescribeInstancesResponse>"), true
	})
	g.own.api.limiter.PerSecond = 0
	if _, err := g.List(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 1000 pages") || next != maxPages {
		t.Errorf("after %d pages: %v", next, err)
	}
}
