package group

import (
	"context"
	"time"
)

// Lister is a group that knows more of its instances than their states. It is called in place of Update.
type Lister interface {
	// List calls update once for each instance of the group, as Update does.
	List(ctx context.Context, update func(Instance)) error
}

// Watcher is a group that hears of changes.
type Watcher interface {
	// Watch calls update for each instance as it is, and then for each that changes, until ctx ends; the error is then its cause. What changes while nobody watches
	// is not reported: callers list, too. update does not block for long.
	Watch(ctx context.Context, update func(Instance)) error
}

// Offerer is a group that can make machines of several shapes.
type Offerer interface {
	// Offers are the shapes that can be asked for now.
	Offers(ctx context.Context) ([]Offer, error)
}

// ShapeIncreaser is a group that makes the machines that are asked for.
type ShapeIncreaser interface {
	// IncreaseShape asks for instances and does not wait until they run. It returns those that were asked for, also with an error. A call that is repeated with the
	// same request id, by this process or by another one, makes what is missing of the request and no more, and returns all that were made.
	IncreaseShape(ctx context.Context, request Request) (instances []string, err error)
}

// Meter is a group that counts.
type Meter interface {
	// Metrics are all values as they are now.
	Metrics(ctx context.Context) ([]Metric, error)
}

// Abler is a group that does not do all that it has methods for, as one at the other end of a wire.
type Abler interface {
	// Abilities are what the group can do, beyond Basic. They do not change after Init.
	Abilities() Abilities
}

// Silencer is a group that knows why a call has no answer, as one at the other end of a wire.
type Silencer interface {
	// Silent is the error of a call that was given up after some time: who does not answer, and what a person can do. It wraps why.
	Silent(waited time.Duration, why error) error
}

// Abilities are what a group can do, beyond Basic.
type Abilities struct {
	Details   bool // it is a Lister
	Watch     bool // it is a Watcher
	Offers    bool // it is an Offerer
	Requests  bool // it is a ShapeIncreaser: a request is known again, whoever repeats it
	Heartbeat bool // it is a Heartbeater
	Suspend   bool // it is a Suspender
	Metrics   bool // it is a Meter
	Volumes   bool // it is a Volumer
}

// Instance is what there is to know of one machine.
type Instance struct {
	// ID is the cloud's. It may be another instance's once no list has this one.
	ID    string
	State State
	// Reason says why the instance is in its state, for people: why it failed.
	Reason string
	// Shape is Offer.Shape; empty: not known, as Zone.
	Shape, Zone string
	Spot        bool
	// Labels are those of the machine, OwnerLabel among them.
	Labels map[string]string
	// Request is the id of the request that it was made for; empty: not known.
	Request string
	// Created is when it was asked for; zero: not known.
	Created time.Time
	// Interruption is that the cloud is about to take the machine away; nil: it is not.
	Interruption *Interruption
}

// Interruption is the notice that a machine will be taken away.
type Interruption struct {
	// At is when; zero: at any time.
	At time.Time
	// Reason is why, for people: "spot capacity is needed", "host maintenance".
	Reason string
}

// Offer is a shape of machine that a group can make.
type Offer struct {
	// Shape is its name, which a Request has: "c7g.xlarge".
	Shape string
	// OS and Arch are as GOOS and GOARCH have them; empty: not known.
	OS, Arch string
	CPUs     float64
	Memory   int64 // bytes
	Disk     int64 // bytes
	GPUs     int
	GPU      string // the model, where there is one
	Zone     string // where it is made; empty: it does not matter
	Spot     bool   // the cloud may take it away
	// Price is for one hour, in Currency (ISO 4217); 0 and "": not known. SuspendedPrice is for one while the instance is suspended, as for its disks; 0: nothing,
	// or not known.
	Price          float64
	SuspendedPrice float64
	Currency       string
	// Minimum is the time that is paid for at least, and Step that in which time is counted; 0: by the second.
	Minimum, Step time.Duration
}

// Request is what is asked for.
type Request struct {
	// ID names the request for good: letters, digits, - and _, at most 63 of them. The caller chooses it, once.
	ID string
	// Count is how many instances, 1 at least.
	Count int
	// Shape and Zone are those of an Offer; empty: whatever the group makes.
	Shape, Zone string
	Spot        bool
	// Labels are put on the instances, beside those of Settings.
	Labels map[string]string
}

// Metric is one value that a group measures.
type Metric struct {
	// Name is as Prometheus has it: "api_calls_total".
	Name string
	Help string
	// Counter says that it only grows.
	Counter bool
	Labels  map[string]string
	Value   float64
}
