package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rungci/rung/fleet/group"
)

func TestAVolumeIsMadeAsTheOptionsSay(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		change func(*Options)
		size   int64
		want   types.Volume
	}{
		"as it is":    {func(*Options) {}, 5*gib + 1, types.Volume{VolumeType: types.VolumeTypeGp3, Size: aws.Int32(6), Iops: aws.Int32(3000)}},
		"provisioned": {func(o *Options) { o.VolumeType, o.VolumeIOPS, o.VolumeKMSKey = "io2", 500, "alias/ci" }, 1, types.Volume{VolumeType: types.VolumeTypeIo2, Size: aws.Int32(4), Iops: aws.Int32(500), KmsKeyId: aws.String("alias/ci")}},
		"throughput":  {func(o *Options) { o.VolumeIOPS, o.VolumeThroughput = 4000, 250 }, 8 * gib, types.Volume{VolumeType: types.VolumeTypeGp3, Size: aws.Int32(8), Iops: aws.Int32(4000), Throughput: aws.Int32(250)}},
		"cold":        {func(o *Options) { o.VolumeType = "sc1" }, gib, types.Volume{VolumeType: types.VolumeTypeSc1, Size: aws.Int32(125)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, motoURL(t))
			o := c.byShape(t)
			one.change(&o)
			g := open(t, o)
			r := volumeRequest(1)
			r.Size = one.size
			made, err := g.CreateVolume(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			got := c.owned(t)[0]
			if got.VolumeType != one.want.VolumeType || aws.ToInt32(got.Size) != aws.ToInt32(one.want.Size) || aws.ToInt32(got.Iops) != aws.ToInt32(one.want.Iops) ||
				aws.ToInt32(got.Throughput) != aws.ToInt32(one.want.Throughput) || one.want.KmsKeyId != nil && aws.ToString(got.KmsKeyId) != *one.want.KmsKeyId {
				t.Errorf("the volume is %+v, want %+v", got, one.want)
			}
			if !aws.ToBool(got.Encrypted) || made.Size != int64(aws.ToInt32(got.Size))*gib || made.Zone != r.Zone {
				t.Errorf("encrypted: %t; returned: %+v", aws.ToBool(got.Encrypted), made)
			}
		})
	}
}

func TestAVolumeThatIsTooLargeForItsTypeIsRefused(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	r := volumeRequest(1)
	r.Size = math.MaxInt64
	_, err := g.CreateVolume(t.Context(), r)
	wants(t, "CreateVolume", err, group.ErrUnsupported)
	if c.count("CreateVolume") != 0 {
		t.Error("EC2 is asked for it")
	}
}

func TestLabelsOfAVolumeComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	r := volumeRequest(1)
	maps.Copy(r.Labels, map[string]string{
		"rung-project": "https://gitlab.example.com/a/b?x=1&y=<2> (protected)", "empty": "", " space ": " kept ", "aws:mine": "reserved", "rung-volume-epoch": "77", "größe": "日本 👍",
		strings.Repeat("k", 200): "long key", "long": strings.Repeat("value ", 200) + ".",
	})
	for n := range 60 {
		r.Labels[fmt.Sprint("many-", n)] = fmt.Sprint(n)
	}
	want := maps.Clone(r.Labels)
	want[group.OwnerLabel], want[group.RequestLabel] = "us", r.ID
	made, err := g.CreateVolume(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]map[string]string{"returned": made.Labels, "listed": g.volumes(t)[made.ID].Labels, "listed elsewhere": open(t, c.byShape(t)).volumes(t)[made.ID].Labels} {
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	r = volumeRequest(2)
	r.Labels["far too long"] = strings.Repeat("x", maxTags*maxValue)
	if _, err := g.CreateVolume(t.Context(), r); err == nil || !strings.Contains(err.Error(), "do not fit into the 50 tags") {
		t.Error(err)
	}
}

func TestAZoneIsChosenWhereTheMachinesAre(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.byShape(t)
	o.Subnets = o.Subnets[1:]
	g := open(t, o)
	r := volumeRequest(1)
	r.Zone = ""
	if v, err := g.CreateVolume(t.Context(), r); err != nil || v.Zone != "eu-west-1b" {
		t.Errorf("without a machine: %+v, %v", v, err)
	}
	g.create(t, group.Request{ID: "c", Count: 1, Zone: "eu-west-1c"})
	r.ID = "second"
	if v, err := g.CreateVolume(t.Context(), r); err != nil || v.Zone != "eu-west-1c" {
		t.Errorf("with a machine in c: %+v, %v", v, err)
	}
	o.Subnets = nil
	alone := newCloud(t, motoURL(t))
	o.ConfigFile, o.CredentialsFile = alone.options(t).ConfigFile, alone.options(t).CredentialsFile
	if _, err := open(t, o).CreateVolume(t.Context(), r); err == nil || !strings.Contains(err.Error(), `option "subnets"`) {
		t.Error("without machines and subnets:", err)
	}
	r.Zone = "eu-west-1x"
	_, err := g.CreateVolume(t.Context(), group.VolumeRequest{ID: "third", Size: gib, Zone: "eu-west-1x"})
	wants(t, "a zone that does not exist", err, group.ErrNotFound)
}

func TestALostAnswerMakesNoSecondVolume(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*cloud, apiCall, func() answer) (answer, bool){"before the effect": drop, "after the effect": lose, "with an error": func(_ *cloud, call apiCall, forward func() answer) (answer, bool) {
		forward()
		return refused(call, 500, "InternalError", "refused by the test"), true
	}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, motoURL(t))
			g := open(t, c.byShape(t))
			c.fault("CreateVolume", 2, how)
			v := g.volume(t, 1)
			if got := c.owned(t); len(got) != 1 || aws.ToString(got[0].VolumeId) != v.ID {
				t.Errorf("there are %d volumes, and the answer is %s", len(got), v.ID)
			}
		})
	}
}

// All answers are lost, the process ends, and lists do not have the volume yet: only the token can tell. Another process would choose another zone.
func TestAnotherProcessThatRepeatsARequestMakesNoSecondVolume(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	g.volumes(t) // what a list that lags behind shows
	c.fault("CreateVolume", 5, lose)
	_, err := g.CreateVolume(t.Context(), volumeRequest(1))
	wants(t, "CreateVolume", err, group.ErrTransient)
	next := open(t, c.byShape(t))
	c.fault("DescribeVolumes", 1, stale)
	elsewhere := volumeRequest(1)
	elsewhere.Zone = "eu-west-1b"
	_, err = next.CreateVolume(t.Context(), elsewhere)
	wants(t, "another zone, while the list lags behind", err, group.ErrUncertain)
	c.fault("DescribeVolumes", 1, stale)
	v := next.volume(t, 1)
	if again, err := next.CreateVolume(t.Context(), elsewhere); err != nil || again.ID != v.ID || again.Zone != "eu-west-1a" {
		t.Errorf("again: %+v, %v; first: %s", again, err, v.ID)
	}
	if got := c.owned(t); len(got) != 1 {
		t.Errorf("there are %d volumes", len(got))
	}
}

func TestAVolumeIsKnownByItsTagWhenItsTokenIsForgotten(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	first := open(t, c.byShape(t)).volume(t, 1)
	clear(c.tokens)
	again := open(t, c.byShape(t)).volume(t, 1)
	if again.ID != first.ID || !maps.Equal(again.Labels, first.Labels) || again.Size != first.Size || len(c.owned(t)) != 1 {
		t.Errorf("first %+v, then %+v", first, again)
	}
}

func TestRequestsForOneVolumeAtOnceMakeOne(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := g.CreateVolume(t.Context(), volumeRequest(1)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := c.owned(t); len(got) != 1 || c.count("CreateVolume") != 1 {
		t.Errorf("there are %d volumes after %d calls", len(got), c.count("CreateVolume"))
	}
}

func TestAVolumeThatIsBeingCreatedIsReturnedLater(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	c.fault("CreateVolume", 1, inState("available", "creating"))
	_, err := g.CreateVolume(t.Context(), volumeRequest(1))
	wants(t, "while it is created", err, group.ErrTransient)
	c.fault("DescribeVolumes", 1, inState("available", "creating"))
	_, err = g.CreateVolume(t.Context(), volumeRequest(1))
	wants(t, "while the list has it so", err, group.ErrTransient)
	g.volume(t, 1)
	if len(c.owned(t)) != 1 {
		t.Error("there is a second one")
	}
}

// moto answers with all volumes on one page, so that the pages are the test's.
func TestAllPagesOfVolumesAreListed(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	var ids []string
	for n := range 3 {
		ids = append(ids, g.volume(t, n).ID)
	}
	next := open(t, c.byShape(t)) // which has made none
	var tokens []string
	c.fault("DescribeVolumes", 3, func(c *cloud, call apiCall, _ func() answer) (answer, bool) {
		if call.form.Get("MaxResults") == "" {
			t.Error("there is no MaxResults")
		}
		tokens = append(tokens, call.form.Get("NextToken"))
		call.form.Set("VolumeId.1", ids[len(tokens)-1])
		a := c.forwardForm(t, call)
		if len(tokens) < len(ids) {
			more := fmt.Sprintf("</volumeSet><nextToken>page-%d</nextToken>", len(tokens))
			a.body = []byte(strings.Replace(string(a.body), "</volumeSet>", more, 1))
		}
		return a, true
	})
	if got := next.volumes(t); len(got) != 3 || !slices.Equal(tokens, []string{"", "page-1", "page-2"}) {
		t.Errorf("listed: %v; the tokens are %q", got, tokens)
	}
	c.fault("DescribeVolumes", 1, refuse(403, "UnauthorizedOperation"))
	all, err := next.Volumes(t.Context())
	wants(t, "Volumes", err, group.ErrUnauthorised)
	if len(all) != 0 {
		t.Errorf("a list that failed has %v", all)
	}
}

func TestAVolumeThatEC2CannotMakeIsAnError(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	c.fault("CreateVolume", 1, inState("available", "creating"))
	_, err := g.CreateVolume(t.Context(), volumeRequest(1))
	wants(t, "CreateVolume", err, group.ErrTransient)
	c.fault("DescribeVolumes", 1, inState("available", "error"))
	_, err = g.CreateVolume(t.Context(), volumeRequest(1))
	wants(t, "in the state error", err, group.ErrNotFound)
	if len(c.owned(t)) != 0 || !strings.Contains(err.Error(), "volume_kms_key") {
		t.Error(err)
	}
	// EC2 deletes some without a word.
	c.fault("CreateVolume", 1, inState("available", "creating"))
	_, err = g.CreateVolume(t.Context(), volumeRequest(2))
	wants(t, "CreateVolume", err, group.ErrTransient)
	if _, err := c.api.ec2.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: c.owned(t)[0].VolumeId}); err != nil {
		t.Fatal(err)
	}
	g.own.disks.disksMu.Lock()
	g.own.disks.made["volume-2"].Created = time.Now().Add(-lag)
	g.own.disks.disksMu.Unlock()
	_, err = g.CreateVolume(t.Context(), volumeRequest(2))
	wants(t, "one that vanished", err, group.ErrNotFound)
	if !strings.Contains(err.Error(), "it has vanished") {
		t.Error(err)
	}
}
