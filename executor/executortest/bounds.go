package executortest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
)

// bounds tries what a job may use and reach. A level holds a limit, or refuses the job: it never accepts one and ignores it.
type bounds struct{ *suite }

// processes is the limit of processes that is tried, memory that of memory in bytes.
const (
	processes = 64
	memory    = 96 << 20
)

func (b *bounds) uses(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  executor.Resources
		script string // exceeds the limit, and then says so
		detail string // what a job sees of the limit
	}{
		{"processes", executor.Resources{PIDs: processes}, `n=0; while [ $n -lt 200 ]; do sleep 60 & n=$((n+1)); done; echo exceeded`, ""},
		{"memory", executor.Resources{Memory: memory}, `dd if=/dev/zero of=/dev/null bs=256M count=1 && echo exceeded`, ""},
		{"processors", executor.Resources{CPU: 0.5}, `cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null
while IFS=: read -r _ c group; do cat "/sys/fs/cgroup$group/cpu.max" "/sys/fs/cgroup/$c$group/cpu.cfs_quota_us"; done </proc/self/cgroup 2>/dev/null; true`, "50000"},
		{"which processors", executor.Resources{CPUSet: "0"}, `list=$(grep Cpus_allowed_list /proc/self/status | tr -cd '0-9,-')
[ "$list" ] || [ "$(grep -c ^processor /proc/cpuinfo)" != 1 ] || list=0 # a kernel that knows no other processor
echo "processors: $list."`, "processors: 0."},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := b.open(t)
			j := b.level.Job("bounded")
			j.Resources = c.limit
			if !p.Capabilities().Resources || slices.Contains(b.level.Unheld, c.name) {
				wantRefusal(t, p, j, "resource limits")
				return
			}
			// A limit may end the job, or all of its environment.
			bounded, events := p.start(t, j), &collected{}
			err := session.Run(t.Context(), nil, bounded.Environment, bounded.request("bounded", c.script), events)
			log := events.log.String()
			if strings.Contains(log, "exceeded") || !strings.Contains(log, c.detail) {
				t.Errorf("the limit does not hold: %v\n%s", err, log)
			}
			j = b.level.Job("free")
			if log, err := p.start(t, j).script(t, c.script); c.detail == "" && !strings.Contains(log, "exceeded") {
				t.Errorf("without a limit: %v\n%s", err, log)
			}
		})
	}
}

// knock connects to a port of the first machine on the way to other networks: that of the level, for one that runs here.
const knock = `
while read -r _ to gateway _; do
  [ "$to" = 00000000 ] || continue
  address=$(printf '%%d.%%d.%%d.%%d' 0x$(echo $gateway | cut -c7-8) 0x$(echo $gateway | cut -c5-6) 0x$(echo $gateway | cut -c3-4) 0x$(echo $gateway | cut -c1-2))
  if "$BIN_DIR/step-runner" reach --timeout 3s $address:%d; then echo reached; fi
done </proc/net/route`

func (b *bounds) reaches(t *testing.T) {
	p := b.open(t)
	j := b.level.Job("unreachable")
	j.Network = executor.NetworkNone
	if !slices.Contains(p.Capabilities().Networks, executor.NetworkNone) {
		wantRefusal(t, p, j, "the network policy")
		return
	}
	listener, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	script := fmt.Sprintf(knock, listener.Addr().(*net.TCPAddr).Port)
	if log, err := p.start(t, j).script(t, script); err != nil || strings.Contains(log, "reached") {
		t.Errorf("without a network: %v\n%s", err, log)
	}
	if log, err := p.start(t, b.level.Job("reachable")).script(t, script); !strings.Contains(log, "reached") {
		t.Logf("a firewall may keep jobs from this machine anyhow: %v\n%s", err, log)
	}
}

func (b *bounds) refuses(t *testing.T) {
	p := b.open(t)
	can := p.Capabilities()
	for _, c := range []struct {
		what string
		can  bool
		ask  func(*executor.Job)
	}{
		{"privileged jobs", can.Privileges, func(j *executor.Job) { j.Privileged = true }},
		{"another user", can.User, func(j *executor.Job) { j.User = "1234" }},
		{`the network policy "public"`, slices.Contains(can.Networks, executor.NetworkPublic), func(j *executor.Job) { j.Network = executor.NetworkPublic }},
		{"kept between jobs", can.KeepProject, func(j *executor.Job) { j.KeepProject = "kept" }},
	} {
		if c.can {
			continue
		}
		j := b.level.Job("more")
		c.ask(j)
		wantRefusal(t, p, j, c.what)
	}
}

// wantRefusal holds that a level refuses a job because of something.
func wantRefusal(t *testing.T, p *opened, j *executor.Job, what string) {
	t.Helper()
	env, err := p.Prepare(t.Context(), j, nil)
	var refusal *executor.Refusal
	if !errors.As(err, &refusal) || refusal.Level != p.Level() || !strings.Contains(refusal.What, what) || refusal.Could == p.Level() {
		t.Errorf("it gives %v, %v", env, err)
	}
}
