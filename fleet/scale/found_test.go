package scale_test

import (
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// lost is a cloud with a volume of web on a machine, from before the record of its fleet was lost.
func lost(t *testing.T) *cloud {
	t.Helper()
	c := world(t, nil)
	c.all["vol-x"] = &disk{id: "vol-x", request: "f-v1", tenant: "web", on: "f-7", epoch: 40, fence: 39}
	c.machines["f-7"] = &machine{request: "f-7", id: "i-x", pool: "small", jobs: map[string]bool{}}
	c.listDisks()
	c.pass(time.Second)
	return c
}

func TestAVolumeThatNoRecordHasIsItsTenantsAgain(t *testing.T) {
	t.Parallel()
	c := lost(t)
	c.of("a", "web")
	if c.using["a"] != "vol-x" || len(c.all) != 1 {
		t.Errorf("the job has %q; there are %d volumes: %s", c.using["a"], len(c.all), c.fleet.ExplainJob(c.now, "a"))
	}
	c.of("b", "app") // the first volume that is made after the loss
	if c.using["b"] == "" || c.using["b"] == "vol-x" {
		t.Errorf("a job of another project has %q", c.using["b"])
	}
}

func TestAVolumeThatNobodyKnowsIsKeptForAWhile(t *testing.T) {
	t.Parallel()
	for name, tenant := range map[string]string{"of a tenant that has another one": "web", "of nobody": "", "that is called unknown": "stray/1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := world(t, nil)
			c.of("a", "web")
			c.all["vol-x"] = &disk{id: "vol-x", request: "f-v99", tenant: tenant}
			c.listDisks()
			c.release("a")
			c.pass(29 * 24 * time.Hour)
			left := c.fleet.VolumeRecords()
			if c.all["vol-x"] == nil || len(left) != 1 || left[0].ID != "vol-x" || left[0].State != scale.VolumeUnknown || !left[0].Found.Equal(left[0].Used) {
				t.Fatalf("after 29 days there are %+v", left)
			}
			c.restored()
			c.pass(23 * time.Hour)
			if c.all["vol-x"] == nil {
				t.Fatal("it is deleted before its time")
			}
			c.pass(2 * time.Hour)
			if len(c.all) != 0 || len(c.fleet.VolumeRecords()) != 0 {
				t.Errorf("there are still %+v", c.fleet.VolumeRecords())
			}
		})
	}
}

func TestAVolumeThatNobodyKnowsGoesWhenSomebodyDeletesIt(t *testing.T) {
	t.Parallel()
	c := world(t, nil)
	c.all["vol-x"] = &disk{id: "vol-x", request: "f-v99"}
	c.listDisks()
	delete(c.all, "vol-x")
	for range 3 {
		c.pass(10 * time.Minute)
		c.listDisks()
	}
	if left := c.fleet.VolumeRecords(); len(left) != 0 {
		t.Errorf("there are still %+v", left)
	}
}

func TestAVolumeThatNobodyKnowsGoesWithItsFleet(t *testing.T) {
	t.Parallel()
	c := world(t, nil)
	c.all["vol-x"] = &disk{id: "vol-x", request: "f-v99"}
	c.listDisks()
	c.fleet.EndVolumes()
	c.pass(time.Second)
	if len(c.all) != 0 {
		t.Error("it stays")
	}
}

// restored goes on with another fleet that has the record.
func (c *cloud) restored() {
	c.t.Helper()
	record := c.fleet.Record()
	next := world(c.t, nil).fleet
	if err := next.Restore(c.now, record); err != nil {
		c.t.Fatal(err)
	}
	c.fleet = next
}

// doubtful is a cloud whose first call for a volume of web had no definite answer, and the second that there is no room for one.
func doubtful(t *testing.T) *cloud {
	t.Helper()
	c := world(t, nil)
	c.tenants["first"] = "web"
	c.ask("first", scale.Needs{Tenant: "web"})
	c.pass(0)
	c.boot()
	c.pass(time.Second)
	c.release("first")
	c.hold = true
	c.of("a", "web")
	v := c.fleet.VolumeRecords()[0]
	c.fleet.VolumeFailed(c.now, v, scale.Failure{Kind: scale.Transient})
	c.pass(10 * time.Second)
	c.fleet.VolumeFailed(c.now, v, scale.Failure{Kind: scale.Quota})
	c.pass(time.Second)
	if c.jobs["a"] == nil || c.using["a"] != "" {
		t.Fatalf("the job does not run without a volume: %s", c.fleet.ExplainJob(c.now, "a"))
	}
	c.hold = false
	return c
}

func TestAVolumeThatMayHaveBeenMadeIsAskedForAgainByItsName(t *testing.T) {
	t.Parallel()
	c := doubtful(t)
	c.disks.all["vol-late"] = &disk{id: "vol-late", request: c.fleet.VolumeRecords()[0].Request, tenant: "web"}
	c.release("a")
	c.of("b", "web")
	c.pass(10 * time.Second)
	if c.using["b"] != "vol-late" || len(c.all) != 1 {
		t.Errorf("the next job has %q of %d volumes: %s", c.using["b"], len(c.all), c.fleet.ExplainJob(c.now, "b"))
	}
}

func TestAVolumeThatMayHaveBeenMadeIsThereOrNotOnceAListSaysSo(t *testing.T) {
	t.Parallel()
	for name, exists := range map[string]bool{"it is": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := doubtful(t)
			if exists {
				c.disks.all["vol-late"] = &disk{id: "vol-late", request: c.fleet.VolumeRecords()[0].Request, tenant: "web"}
			}
			calls := len(c.calls)
			for range 3 {
				c.pass(10 * time.Minute)
				c.listDisks()
			}
			left := c.fleet.VolumeRecords()
			switch {
			case len(c.calls) > calls:
				t.Errorf("nobody wants it, and it is asked for: %+v", c.calls[calls:])
			case exists && (len(left) != 1 || left[0].State != scale.VolumeFree || left[0].ID != "vol-late"), !exists && len(left) > 0:
				t.Errorf("there are %+v", left)
			}
		})
	}
}
