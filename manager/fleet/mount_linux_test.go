package fleet_test

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/fleet"
)

// disks are the block devices of a test, and the fleet whose machines, which are all this one, have them.
type disks struct {
	t       *testing.T
	folder  string            // of mounts
	devices map[string]string // by volume
	next    func() string
	host    func() host.Host
	state   string
}

// withDisks skips the test where there are no loop devices, or no root.
func withDisks(t *testing.T) *disks {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, program := range []string{"losetup", "mkfs.ext4", "e2fsck", "blkid", "mountpoint"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("there is no", program)
		}
	}
	d := &disks{t: t, folder: filepath.Join(t.TempDir(), "volumes"), devices: map[string]string{}, state: t.TempDir(), host: func() host.Host { return local.New() }}
	d.next = func() string { return d.loop(64 << 20) }
	return d
}

// loop is a new block device.
func (d *disks) loop(size int64) string {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		d.t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		d.t.Skipf("there are no loop devices: %s", out)
	}
	device := strings.TrimSpace(string(out))
	d.t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
	return device
}

// open opens the fleet, which goes on with the machines of the last one.
func (d *disks) open(cloud *fake.Group) *fleet.Provider {
	d.t.Helper()
	m := autoscaled(3, 1)
	m.Fleet.Volume = config.PerProject
	m.Fleet.VolumeWait = 20 * time.Second
	p, err := fleet.Open(d.t.Context(), fleet.Options{
		Name: "test", Machinery: m, Setup: provider.Setup{Owner: "test", State: d.state}, MountFolder: d.folder,
		Group:   func(context.Context, string, map[string]any) (group.Basic, error) { return cloud, nil },
		Connect: func(context.Context, provider.Access) (host.Host, error) { return d.host(), nil },
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		for _, j := range p.Status().Jobs {
			_ = p.Release(context.Background(), j.Job, "")
		}
		_ = p.End(true)
		for _, at := range d.mounts() {
			_ = syscall.Unmount(at, 0)
		}
	})
	return p
}

func (d *disks) cloud() *fake.Group {
	return fake.New(fake.Options{Size: 3, Device: func(volume string) string {
		if d.devices[volume] == "" {
			d.devices[volume] = d.next()
		}
		return d.devices[volume]
	}})
}

// mounts are the folders where something is mounted.
func (d *disks) mounts() (all []string) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, d.folder+"/") {
			all = append(all, at)
		}
	}
	return all
}

// job gets a machine for a job of a project.
func (d *disks) job(p *fleet.Provider, key, project string) *provider.Machine {
	d.t.Helper()
	if err := p.Reserve(d.t.Context(), key, provider.Needs{}); err != nil {
		d.t.Fatal(err)
	}
	m, err := p.Acquire(d.t.Context(), key, provider.Job{ID: key, Project: project, ProjectName: project}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

func (d *disks) over(p *fleet.Provider, key string) {
	d.t.Helper()
	if err := p.Release(d.t.Context(), key, ""); err != nil {
		d.t.Fatal(err)
	}
}

// kept is a file that jobs leave in a volume.
func kept(m *provider.Machine) string { return filepath.Join(m.Volume, "web.0", "kept") }

func TestAVolumeThatIsADeviceIsMountedWithWhatIsOnIt(t *testing.T) {
	t.Parallel()
	d := withDisks(t)
	p := d.open(d.cloud())
	first := d.job(p, "1", "web")
	if first.Volume == "" || filepath.Dir(first.Volume) != d.folder || len(d.mounts()) != 1 {
		t.Fatalf("the job has its volume in %q, and %v are mounted", first.Volume, d.mounts())
	}
	if err := os.MkdirAll(filepath.Dir(kept(first)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept(first), []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.over(p, "1")
	d.job(p, "2", "app") // on the same machine
	if all := d.mounts(); len(all) > 0 {
		t.Errorf("%v are mounted, where a job of another project runs", all)
	}
	again := d.job(p, "3", "web") // on another one
	if text, err := os.ReadFile(kept(again)); string(text) != "first" {
		t.Errorf("the next job of the project finds %q in %q: %v", text, again.Volume, err)
	}
}

func TestADeviceMayAppearLate(t *testing.T) {
	t.Parallel()
	d := withDisks(t)
	device, link := d.next(), filepath.Join("/dev/shm", "rung-"+rand.Text())
	t.Cleanup(func() { _ = os.Remove(link) })
	d.next = func() string {
		time.AfterFunc(100*time.Millisecond, func() { _ = os.Symlink(device, link) })
		return link
	}
	p := d.open(d.cloud())
	if m := d.job(p, "1", "web"); m.Volume == "" {
		t.Error(why(p, "1"))
	}
}

// why is what the fleet says of a job.
func why(p *fleet.Provider, key string) string {
	for _, j := range p.Status().Jobs {
		if j.Job == key {
			return j.Why
		}
	}
	return "it does not know the job"
}

func TestAVolumeThatCannotBeMountedHoldsUpNoJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		device func(d *disks) string
		host   func() host.Host
		want   string
	}{
		"what is on it is somebody's": {device: func(d *disks) string {
			device := d.loop(64 << 20)
			if err := os.WriteFile(device, []byte("LUKS\xba\xbe\x00\x01"), 0); err != nil {
				t.Fatal(err)
			}
			return device
		}, want: "Bad magic number"},
		"it is too small to be read": {device: func(d *disks) string { return d.loop(1 << 19) }, want: "cannot be read"},
		"the user is not root":       {host: func() host.Host { return unprivileged{local.New()} }, want: "needs Linux with util-linux and e2fsprogs, and root or sudo without a password"},
		"it is no device":            {device: func(*disks) string { return "/dev/null" }, want: "is not on its machine yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := withDisks(t)
			if c.device != nil {
				d.next = func() string { return c.device(d) }
			}
			if c.host != nil {
				d.host = c.host
			}
			p := d.open(d.cloud())
			if m := d.job(p, "1", "web"); m.Volume != "" || !strings.Contains(why(p, "1"), c.want) {
				t.Errorf("it has a volume in %q: %s", m.Volume, why(p, "1"))
			}
		})
	}
}

// unprivileged is this machine for somebody who is not root.
type unprivileged struct{ host.Host }

func (u unprivileged) Exec(ctx context.Context, c *host.Command) (host.Process, error) {
	as := *c
	as.Args = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"}, c.Args...)
	return u.Host.Exec(ctx, &as)
}

func TestAProcessThatUsesAVolumeKeepsItOnItsMachine(t *testing.T) {
	t.Parallel()
	d := withDisks(t)
	p := d.open(d.cloud())
	first := d.job(p, "1", "web")
	left := exec.Command("sleep", "600")
	left.Dir = first.Volume
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() { _, _ = left.Process.Kill(), left.Wait() }
	t.Cleanup(end)
	d.over(p, "1")
	next := make(chan *provider.Machine, 1)
	go func() { next <- d.job(p, "2", "app") }()
	await(t, p, "kept", func(s *fleet.Status) bool {
		return len(s.Volumes) == 1 && strings.Contains(s.Volumes[0].Why, "cannot be unmounted: umount: ")
	})
	select {
	case <-next:
		t.Error("a job of another project begins on a machine with the volume")
	default:
	}
	end()
	<-next
	if all := d.mounts(); len(all) > 0 {
		t.Errorf("%v are mounted", all)
	}
}

func TestTheNextManagerUnmountsWhatTheLastOneMounted(t *testing.T) {
	t.Parallel()
	d := withDisks(t)
	cloud := d.cloud()
	p := d.open(cloud)
	m := d.job(p, "1", "web")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = d.open(cloud)
	if _, err := p.Recover(t.Context(), "1", m.Handle); err != nil {
		t.Fatal(err)
	}
	if len(d.mounts()) != 1 {
		t.Errorf("%v are mounted", d.mounts())
	}
	d.over(p, "1")
	d.job(p, "2", "app")
	if all := d.mounts(); len(all) > 0 {
		t.Errorf("%v are mounted", all)
	}
}
