package config

import (
	"fmt"
	"time"

	"github.com/rungci/rung/fleet/schedule"
)

// Autoscaler is how many machines an entry of executor docker-autoscaler or instance has, and who makes them. Numbers of 0 are no limit, and durations
// of 0 the default.
type Autoscaler struct {
	CapacityPerInstance         int                `toml:"capacity_per_instance"` // jobs at once; 0 is one
	MaxUseCount                 int                `toml:"max_use_count"`         // jobs of a machine
	MaxInstances                int                `toml:"max_instances"`         // in every state
	Plugin                      string             `toml:"plugin"`
	PluginConfig                map[string]any     `toml:"plugin_config"`
	Connector                   Connector          `toml:"connector_config"`
	InstanceReadyCommand        string             `toml:"instance_ready_command"`
	InstanceAcquireTimeout      time.Duration      `toml:"instance_acquire_timeout"`
	UpdateInterval              time.Duration      `toml:"update_interval"`
	UpdateIntervalWhenExpecting time.Duration      `toml:"update_interval_when_expecting"`
	DeletionRetryInterval       time.Duration      `toml:"deletion_retry_interval"`
	ShutdownDeletionInterval    time.Duration      `toml:"shutdown_deletion_interval"`
	ShutdownDeletionRetries     int                `toml:"shutdown_deletion_retries"`
	FailureThreshold            int                `toml:"failure_threshold"`
	ReservationThrottling       *bool              `toml:"reservation_throttling"` // nil: true
	LogInternalIP               bool               `toml:"log_internal_ip"`
	LogExternalIP               bool               `toml:"log_external_ip"`
	DeleteInstancesOnShutdown   bool               `toml:"delete_instances_on_shutdown"`
	VMIsolation                 VMIsolation        `toml:"vm_isolation"`
	ScaleThrottle               ScaleThrottle      `toml:"scale_throttle"`
	Policies                    []AutoscalerPolicy `toml:"policy"`

	// Buckets of histograms, in seconds; nil are those of OperationBuckets, and then the default.
	OperationBuckets []float64 `toml:"instance_operation_time_buckets"`
	CreationBuckets  []float64 `toml:"instance_creation_time_buckets"`
	RunningBuckets   []float64 `toml:"instance_is_running_time_buckets"`
	DeletionBuckets  []float64 `toml:"instance_deletion_time_buckets"`
	ReadinessBuckets []float64 `toml:"instance_readiness_time_buckets"`
	LifeBuckets      []float64 `toml:"instance_life_duration_buckets"`
}

// Connector is how machines are reached, where who makes them does not say.
type Connector struct {
	OS                   string        `toml:"os"`
	Arch                 string        `toml:"arch"`
	Protocol             string        `toml:"protocol"`      // empty: ssh
	ProtocolPort         int           `toml:"protocol_port"` // 0: that of the protocol
	Username             string        `toml:"username"`
	Password             string        `toml:"password"`
	KeyPath              string        `toml:"key_path"`
	UseStaticCredentials bool          `toml:"use_static_credentials"`
	Timeout              time.Duration `toml:"timeout"` // 0: the connector's
	UseExternalAddr      bool          `toml:"use_external_addr"`
}

// VMIsolation are virtual machines within machines: each job gets one.
type VMIsolation struct {
	Enabled       bool           `toml:"enabled"`
	NestingHost   string         `toml:"nesting_host"` // unix:PATH or HOST:PORT, as seen from the machine; empty: where nesting listens by itself
	NestingConfig map[string]any `toml:"nesting_config"`
	Image         string         `toml:"image"`
	Connector     VMConnector    `toml:"connector_config"`
}

// VMConnector is how virtual machines are reached from their machines.
type VMConnector struct {
	OS           string        `toml:"os"`
	Arch         string        `toml:"arch"`
	Protocol     string        `toml:"protocol"`      // empty: ssh
	ProtocolPort int           `toml:"protocol_port"` // where nesting does not say; 0: that of the protocol
	Username     string        `toml:"username"`
	Password     string        `toml:"password"`
	KeyPath      string        `toml:"key_path"`
	Timeout      time.Duration `toml:"timeout"` // 0: the default
}

// ScaleThrottle is how fast machines are asked for.
type ScaleThrottle struct {
	Limit int `toml:"limit"` // a second; 0 is 100, -1 no limit
	Burst int `toml:"burst"` // 0: MaxInstances, or Limit
}

// AutoscalerPolicy is what is kept ready in some periods.
type AutoscalerPolicy struct {
	Periods          []string      `toml:"periods"` // as cron has them; none is always
	Timezone         string        `toml:"timezone"`
	IdleCount        int           `toml:"idle_count"` // slots
	IdleTime         time.Duration `toml:"idle_time"`
	ScaleFactor      float64       `toml:"scale_factor"`
	ScaleFactorLimit int           `toml:"scale_factor_limit"`
	PreemptiveMode   *bool         `toml:"preemptive_mode"` // nil: if IdleCount is more than 0
}

// Schedule is the policies as the fleet has them. The error is about a period or a time zone.
func (a *Autoscaler) Schedule() (schedule.Policies, error) {
	var all schedule.Policies
	for _, p := range a.Policies {
		periods, err := always(p.Timezone, p.Periods)
		if err != nil {
			return nil, err
		}
		one := schedule.Policy{
			Periods: periods, IdleCount: max(0, p.IdleCount), IdleTime: max(0, p.IdleTime), ScaleFactor: max(0, p.ScaleFactor), ScaleFactorLimit: max(0, p.ScaleFactorLimit),
			Preemptive: p.IdleCount > 0,
		}
		if p.PreemptiveMode != nil {
			one.Preemptive = *p.PreemptiveMode
		}
		all = append(all, one)
	}
	return all, nil
}

// always reads periods, of which none is all time.
func always(timezone string, periods []string) (schedule.Periods, error) {
	if len(periods) == 0 {
		periods = []string{"* * * * *"}
	}
	return schedule.Parse(timezone, periods...)
}

// periods checks the periods of a policy.
func (r *reader) periods(at, zoneKey, periodsKey, timezone string, periods []string) {
	if _, err := schedule.Zone(timezone); err != nil {
		r.found(problem, "config/value", at+"."+zoneKey, r.doc.vals, "write a name such as Europe/Berlin or UTC", "%v", err)
	} else if _, err := always(timezone, periods); err != nil {
		r.found(problem, "config/value", at+"."+periodsKey, r.doc.vals, `write for example "* 9-17 * * mon-fri": minute, hour, day, month, weekday`, "%v", err)
	}
	r.never(at+"."+periodsKey, periods)
}

// never warns of periods that are of no use.
func (r *reader) never(at string, periods []string) {
	for i, p := range periods {
		if schedule.Never(p) {
			r.found(warning, "config/value", fmt.Sprintf("%s[%d]", at, i), r.doc.vals, "delete it, or write a day that there is", "the period %q never holds: no such day exists", p)
		}
	}
}

// autoscaler checks what makes the machines of an entry.
func (r *reader) autoscaler(e *Runner, path string) {
	if a := e.Autoscaler; a != nil {
		for i, p := range a.Policies {
			at := fmt.Sprintf("%s.autoscaler.policy[%d]", path, i)
			r.periods(at, "timezone", "periods", p.Timezone, p.Periods)
		}
	}
	if m := e.Machine; m != nil {
		for i, p := range m.Autoscaling {
			r.periods(fmt.Sprintf("%s.machine.autoscaling[%d]", path, i), "Timezone", "Periods", p.Timezone, p.Periods)
		}
		if len(m.OffPeakPeriods) > 0 {
			r.periods(path+".machine", "OffPeakTimezone", "OffPeakPeriods", m.OffPeakTimezone, m.OffPeakPeriods)
		}
	}
	r.fleet(e, path)
}
