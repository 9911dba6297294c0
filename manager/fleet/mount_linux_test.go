package fleet_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/fleet"
)

// disks are the block devices of a test, and the fleet whose machines, which are all this one, have them.
type disks struct {
	t      *testing.T
	folder string // of mounts
	state  string
	host   func() host.Host

	mu      sync.Mutex
	devices []string          // that no volume has yet
	of      map[string]string // by volume
}

// withDisks skips the test where there are no loop devices, or no root.
func withDisks(t *testing.T) *disks {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, program := range []string{"losetup", "mkfs.ext4", "e2fsck", "mountpoint", "flock"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("there is no", program)
		}
	}
	return &disks{t: t, folder: filepath.Join(t.TempDir(), "volumes"), state: t.TempDir(), host: func() host.Host { return local.New() }, of: map[string]string{}}
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

// diskSize is that of a device, in bytes.
const diskSize = 64 << 20

// cloud is a cloud whose volumes are these devices, in their order.
func (d *disks) cloud(devices ...string) *fake.Group {
	d.devices = devices
	return fake.New(fake.Options{Size: 3, Device: func(volume string) string {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.of[volume] == "" && len(d.devices) > 0 {
			d.of[volume], d.devices = d.devices[0], d.devices[1:]
		}
		return d.of[volume]
	}})
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
		Tuning: func(o *control.Options) {
			o.UpdateInterval = 100 * time.Millisecond
			o.Scale.MissingAfter = 50 * time.Millisecond
		},
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
	m, err := d.try(p, key, project)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

func (d *disks) try(p *fleet.Provider, key, project string) (*provider.Machine, error) {
	if err := p.Reserve(d.t.Context(), key, provider.Needs{}); err != nil {
		return nil, err
	}
	return p.Acquire(d.t.Context(), key, provider.Job{ID: key, Project: project, ProjectName: project}, nil)
}

// write leaves a file for the next job of the project.
func (d *disks) write(m *provider.Machine) {
	d.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(kept(m)), 0o700), os.WriteFile(kept(m), []byte("kept"), 0o600)); err != nil {
		d.t.Fatal(err)
	}
}

// read fails the test if a job does not find the file.
func (d *disks) read(m *provider.Machine) {
	d.t.Helper()
	if text, err := os.ReadFile(kept(m)); string(text) != "kept" {
		d.t.Errorf("the job finds %q in %q: %v", text, m.Volume, err)
	}
}

// free waits until no machine has a volume.
func (d *disks) free(p *fleet.Provider) {
	d.t.Helper()
	await(d.t, p, "free", func(s *fleet.Status) bool {
		return !slices.ContainsFunc(s.Volumes, func(v fleet.VolumeStatus) bool { return v.State != scale.VolumeFree.String() })
	})
	if all := d.mounts(); len(all) > 0 {
		d.t.Errorf("%v are mounted", all)
	}
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
	p := d.open(d.cloud(d.loop(diskSize)))
	first := d.job(p, "1", "web")
	if first.Volume == "" || filepath.Dir(first.Volume) != d.folder || len(d.mounts()) != 1 {
		t.Fatalf("the job has its volume in %q, and %v are mounted", first.Volume, d.mounts())
	}
	d.write(first)
	d.over(p, "1")
	d.job(p, "2", "app") // on the same machine
	if all := d.mounts(); len(all) > 0 {
		t.Errorf("%v are mounted, where a job of another project runs", all)
	}
	d.read(d.job(p, "3", "web")) // on another one
}

func TestADeviceMayAppearLate(t *testing.T) {
	t.Parallel()
	d := withDisks(t)
	device, link := d.loop(diskSize), filepath.Join("/dev/shm", "rung-"+rand.Text())
	t.Cleanup(func() { _ = os.Remove(link) })
	p := d.open(d.cloud(link))
	time.AfterFunc(time.Second, func() { _ = os.Symlink(device, link) })
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
		"what is on it is somebody's": {device: func(d *disks) string { return d.begins("LUKS\xba\xbe\x00\x01") }, want: "Bad magic number"},
		"what is on it is unknown":    {device: func(d *disks) string { return d.begins(strings.Repeat("\x00", 1<<19) + "!") }, want: "Bad magic number"},
		"it is too small to be read":  {device: func(d *disks) string { return d.loop(1 << 19) }, want: "cannot be read"},
		"the user is not root":        {host: func() host.Host { return unprivileged{local.New()} }, want: "needs Linux with util-linux and e2fsprogs, and root or sudo without a password"},
		"it is no device":             {device: func(*disks) string { return "/dev/null" }, want: "cannot be mounted on its machine yet: there is no block device /dev/null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := withDisks(t)
			device := ""
			if c.device == nil {
				device = d.loop(diskSize)
			} else {
				device = c.device(d)
			}
			if c.host != nil {
				d.host = c.host
			}
			p := d.open(d.cloud(device))
			if m := d.job(p, "1", "web"); m.Volume != "" || !strings.Contains(why(p, "1"), c.want) {
				t.Errorf("it has a volume in %q: %s", m.Volume, why(p, "1"))
			}
			d.free(p)
		})
	}
}

// begins is a device that begins with a text.
func (d *disks) begins(text string) string {
	device := d.loop(diskSize)
	if err := os.WriteFile(device, []byte(text), 0); err != nil {
		d.t.Fatal(err)
	}
	return device
}

// unprivileged is this machine for somebody who is not root.
type unprivileged struct{ host.Host }

func (u unprivileged) Exec(ctx context.Context, c *host.Command) (host.Process, error) {
	as := *c
	as.Args = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"}, c.Args...)
	return u.Host.Exec(ctx, &as)
}

func TestADamagedFileSystemIsNotReplaced(t *testing.T) {
	t.Parallel()
	d := withDisks(t)
	device := d.loop(diskSize)
	p := d.open(d.cloud(device))
	d.write(d.job(p, "1", "web"))
	d.over(p, "1")
	d.job(p, "2", "app")
	d.free(p)
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	const superblock, length = 1024, 1024
	if _, err := f.WriteAt(make([]byte, length), superblock); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if m := d.job(p, "3", "web"); m.Volume != "" || !strings.Contains(why(p, "3"), "e2fsck") {
		t.Errorf("it is mounted at %q: %s", m.Volume, why(p, "3"))
	}
	if out, err := exec.Command("e2fsck", "-y", device).CombinedOutput(); err != nil && err.(*exec.ExitError).ExitCode() > 3 {
		t.Fatalf("%v: %s", err, out)
	}
	d.over(p, "3")
	d.read(d.job(p, "4", "web"))
}

func TestWhoUsesAVolumeKeepsItOnItsMachine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		within []string
		want   string
	}{
		"a process":                             {nil, "cannot be unmounted: umount: "},
		"a process with mounts of its own only": {[]string{"unshare", "--mount", "--propagation", "private"}, "it is also mounted where these processes are: /proc/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := withDisks(t)
			p := d.open(d.cloud(d.loop(diskSize)))
			first := d.job(p, "1", "web")
			args := append(c.within, "sleep", "600")
			left := exec.Command(args[0], args[1:]...)
			left.Dir = first.Volume
			if c.within != nil {
				left.Dir = "/"
			}
			if err := left.Start(); err != nil {
				t.Fatal(err)
			}
			end := func() { _, _ = left.Process.Kill(), left.Wait() }
			t.Cleanup(end)
			for until := time.Now().Add(time.Minute); c.within != nil && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", left.Process.Pid)); string(name) == "sleep\n" {
					break // which has mounts of its own now
				}
			}
			d.over(p, "1")
			next := make(chan error, 1)
			go func() {
				_, err := d.try(p, "2", "app")
				next <- err
			}()
			await(t, p, "kept", func(s *fleet.Status) bool { return len(s.Volumes) == 1 && strings.Contains(s.Volumes[0].Why, c.want) })
			select {
			case <-next:
				t.Error("a job of another project begins on a machine with the volume")
			default:
			}
			end()
			if err := <-next; err != nil {
				t.Error(err)
			}
			d.free(p)
		})
	}
}

func TestAMachineThatHasLostTheMountOfItsVolumeIsReplaced(t *testing.T) {
	t.Parallel()
	d := withDisks(t)
	p := d.open(d.cloud(d.loop(diskSize)))
	first := d.job(p, "1", "web")
	d.write(first)
	d.over(p, "1")
	if err := syscall.Unmount(first.Volume, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.try(p, "2", "web"); err == nil || !strings.Contains(err.Error(), "is not mounted there any more") {
		t.Errorf("a job begins without what it was told to have: %v", err)
	}
	d.over(p, "2")
	again := d.job(p, "3", "web")
	d.read(again)
	if again.Name == first.Name {
		t.Errorf("the machine %s is still used", again.Name)
	}
}

// leave closes a fleet while the job 1 runs.
func (d *disks) leave(cloud *fake.Group) *provider.Machine {
	d.t.Helper()
	p := d.open(cloud)
	m := d.job(p, "1", "web")
	if err := p.Close(); err != nil {
		d.t.Fatal(err)
	}
	return m
}

func TestTheNextManagerUnmountsWhatTheLastOneMounted(t *testing.T) {
	t.Parallel()
	d := withDisks(t)
	cloud := d.cloud(d.loop(diskSize))
	m := d.leave(cloud)
	p := d.open(cloud)
	if _, err := p.Recover(t.Context(), "1", m.Handle); err != nil {
		t.Fatal(err)
	}
	if len(d.mounts()) != 1 {
		t.Errorf("%v are mounted", d.mounts())
	}
	d.over(p, "1")
	d.job(p, "2", "app")
	d.free(p)
}

func TestAJobWhoseMachineHasGoneMeanwhileIsGivenBack(t *testing.T) {
	t.Parallel()
	d := withDisks(t)
	cloud := d.cloud(d.loop(diskSize))
	m := d.leave(cloud)
	before := cloud.Calls("List")
	p := d.open(cloud)
	await(t, p, "listed", func(*fleet.Status) bool { return cloud.Calls("List") > before+1 })
	if _, err := cloud.Decrease(t.Context(), []string{m.Name}); err != nil {
		t.Fatal(err)
	}
	await(t, p, "without the machine", none)
	var gone *executor.Gone
	if _, err := p.Recover(t.Context(), "1", m.Handle); !errors.As(err, &gone) || strings.Contains(err.Error(), "panicked") {
		t.Errorf("the job is recovered: %v", err)
	}
	d.over(p, "1")
}
