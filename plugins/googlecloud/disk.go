package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/rungci/rung/sdk/instancegroup"
)

// A volume is a zonal disk, which has all that is known of it:
//
//	name          follows from the owner and the request, so that a repeated request makes no second disk
//	description   what it was asked for with, as JSON: labels of Google Cloud have no upper case
//	labels        the mark (rung-epoch, rung-fence, rung-machine), which is changed under the fingerprint of the labels; and those of the request, for the bill
//
// Its name on a machine has its number and the epoch of the attachment, so that a call about an earlier attachment means no later one:
//
//	/dev/disk/by-id/google-rung-NUMBER-EPOCH

// The labels of the mark.
const (
	epochLabel   = "rung-epoch"
	fenceLabel   = "rung-fence"
	machineLabel = "rung-machine"
)

// mark is what is recorded of the attachments of a volume.
type mark struct {
	epoch   uint64 // of the last attachment that was asked for
	fence   uint64 // attachments up to this one come too late
	machine string // of the last attachment that was asked for
}

// open reports whether the attachment was not ended: the machine may have the volume, or get it.
func (m mark) open() bool { return m.machine != "" && m.epoch > m.fence }

func (m mark) put(labels map[string]string) {
	labels[epochLabel], labels[fenceLabel], labels[machineLabel] = strconv.FormatUint(m.epoch, 10), strconv.FormatUint(m.fence, 10), m.machine
}

// note is the description of a disk.
type note struct {
	Request string            `json:"request"`
	Labels  map[string]string `json:"labels"`
}

// maxNote is how long a description may be, in bytes.
const maxNote = 2048

// disk is a disk that is a volume of this owner.
type disk struct {
	*compute.Disk
	asked note
	zone  string
}

// diskOf is a disk as a volume; nil: it is none of this owner.
func (c *cloud) diskOf(d *compute.Disk) *disk {
	one := &disk{Disk: d, zone: short(d.Zone)}
	if !strings.HasPrefix(d.Name, c.volumePrefix) || json.Unmarshal([]byte(d.Description), &one.asked) != nil || one.asked.Labels[instancegroup.OwnerLabel] != c.settings.Owner {
		return nil
	}
	return one
}

// volumeID is the form of the id of a volume: its zone, the number of its disk, which is never used again, and its name.
var volumeID = regexp.MustCompile(`^([a-z][-a-z0-9]{0,62})/([0-9]{1,20})/([a-z][-a-z0-9]{0,62})$`)

func (d *disk) id() string { return fmt.Sprintf("%s/%d/%s", d.zone, d.Id, d.Name) }

// deviceName is how an attachment of a disk is called on its machine.
func (d *disk) deviceName(epoch uint64) string { return fmt.Sprintf("rung-%d-%d", d.Id, epoch) }

// epochOf is the epoch of an attachment with this device name; ours is false if it is not one of this plugin.
func (d *disk) epochOf(deviceName string) (epoch uint64, ours bool) {
	text, ours := strings.CutPrefix(deviceName, fmt.Sprintf("rung-%d-", d.Id))
	epoch, err := strconv.ParseUint(text, 10, 64)
	return epoch, ours && err == nil
}

// holder is the machine that has the disk; empty: none has it.
func (d *disk) holder() string {
	if len(d.Users) == 0 {
		return ""
	}
	return short(d.Users[0])
}

// readMark reads the mark of a disk. One that somebody has changed is an error: nobody knows then which calls come too late.
func (d *disk) readMark() (m mark, err error) {
	read := func(label string) (n uint64) {
		n, wrong := strconv.ParseUint(d.Labels[label], 10, 64)
		if wrong != nil {
			err = fmt.Errorf("the label %s of the disk %s is %q, which must be a number: somebody has changed it; set it to that of the last attachment, or delete the disk", label, d.Name, d.Labels[label])
		}
		return n
	}
	m = mark{epoch: read(epochLabel), fence: read(fenceLabel), machine: d.Labels[machineLabel]}
	return m, err
}

// volume is a disk as the group reports it.
func (d *disk) volume() instancegroup.Volume {
	created, _ := time.Parse(time.RFC3339, d.CreationTimestamp)
	return instancegroup.Volume{
		ID: d.id(), Request: d.asked.Request, Size: d.SizeGb * gibibyte, Zone: d.zone, Instance: d.holder(), Labels: d.asked.Labels, Created: created,
	}
}

func noVolume(id string) error {
	return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no volume " + id}
}

// disk reads the disk of a volume.
func (c *cloud) disk(ctx context.Context, id string) (*disk, error) {
	parts := volumeID.FindStringSubmatch(id)
	if parts == nil {
		return nil, noVolume(id)
	}
	d, err := c.diskIn(ctx, parts[1], parts[3])
	if err == nil && (d == nil || d.id() != id) {
		err = noVolume(id)
	}
	return d, err
}

// diskIn reads a disk by its name; nil without an error: it is not a volume of this owner.
func (c *cloud) diskIn(ctx context.Context, zone, name string) (*disk, error) {
	d, err := do(ctx, c, "the disk "+name, func(ctx context.Context) (*compute.Disk, error) {
		return c.api.Disks.Get(c.Project, zone, name).Context(ctx).Do()
	})
	if err != nil {
		return nil, err
	}
	return c.diskOf(d), nil
}

// disks are the volumes of this owner whose names match an expression, in all zones: volumes outlive the options.
func (c *cloud) disks(ctx context.Context, expression string) (found []*disk, err error) {
	const what = "the disks of the project"
	err = pages(func(token string) (string, error) {
		list, err := do(ctx, c, what, func(ctx context.Context) (*compute.DiskAggregatedList, error) {
			return c.api.Disks.AggregatedList(c.Project).Filter("name eq " + expression).PageToken(token).Context(ctx).Do()
		})
		if err != nil {
			return "", err
		}
		if len(list.Unreachables) > 0 {
			return "", instancegroup.Transient(0, fmt.Errorf("%s: nothing is known of %s", what, strings.Join(list.Unreachables, ", ")))
		}
		for _, scope := range slices.Sorted(maps.Keys(list.Items)) {
			in := list.Items[scope]
			if in.Warning != nil && in.Warning.Code == "UNREACHABLE" {
				return "", instancegroup.Transient(0, fmt.Errorf("%s: %s: %s", what, scope, in.Warning.Message))
			}
			for _, d := range in.Disks {
				if one := c.diskOf(d); one != nil {
					found = append(found, one)
				}
			}
		}
		return list.NextPageToken, nil
	})
	return found, err
}

const (
	// operationTime is how long a call waits for an operation on a disk, which takes some seconds.
	operationTime = 15 * time.Second
	// lateTime bounds a call that is made to its end whatever its caller does.
	lateTime = 30 * time.Second
	// retryTime is the pause before a call that waits for an operation is made again.
	retryTime = time.Second
)

// finish waits until an operation is done, and returns why it failed. The error is ErrTransient, and done false, if it takes longer.
func (c *cloud) finish(ctx context.Context, what string, op *compute.Operation) (done bool, err error) {
	pause := firstLook
	for until := time.Now().Add(operationTime); op.Status != "DONE"; pause = min(2*pause, 2*time.Second) {
		if time.Now().After(until) {
			return false, instancegroup.Transient(retryTime, fmt.Errorf("%s: the operation %s is not done yet", what, op.Name))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
		if op, err = c.operation(ctx, op); err != nil {
			return false, err
		}
	}
	return true, failed(what, op)
}

// ask makes a call that the API makes once, however often it is repeated, until its operation is done: its request id follows from its key and from how many were used up.
func (c *cloud) ask(ctx context.Context, key, what string, call func(ctx context.Context, id string) (*compute.Operation, error)) error {
	number, _ := c.usedUp.get(key)
	op, err := do(ctx, c, what, func(ctx context.Context) (*compute.Operation, error) {
		return call(ctx, request(c.Project+"/"+key, number))
	})
	if err != nil {
		return err
	}
	done, err := c.finish(ctx, what, op)
	if done {
		c.usedUp.put(key, number+1)
	}
	return err
}

// maxConflicts is how often labels are tried to be set that others change at the same time.
const maxConflicts = 5

// setMark changes the mark of a disk, if nobody else does at the same time: then it is read again. It returns the disk as it is then.
func (c *cloud) setMark(ctx context.Context, d *disk, change func(mark) (mark, error)) (*disk, error) {
	what := "the labels of the disk " + d.Name
	for range maxConflicts {
		was, err := d.readMark()
		if err != nil {
			return nil, err
		}
		next, err := change(was)
		if err != nil || next == was {
			return d, err
		}
		body := &compute.ZoneSetLabelsRequest{Labels: maps.Clone(d.Labels), LabelFingerprint: d.LabelFingerprint}
		next.put(body.Labels)
		op, err := do(ctx, c, what, func(ctx context.Context) (*compute.Operation, error) {
			op, err := c.api.Disks.SetLabels(c.Project, d.zone, d.Name, body).Context(ctx).Do()
			var refused *googleapi.Error
			if errors.As(err, &refused) && refused.Code == http.StatusPreconditionFailed {
				return nil, nil //nolint:nilnil // nothing was begun
			}
			return op, err
		})
		if err == nil && op != nil {
			_, err = c.finish(ctx, what, op)
		}
		if err != nil {
			return nil, err
		}
		if d, err = c.disk(ctx, d.id()); err != nil {
			return nil, err
		}
	}
	return nil, instancegroup.Transient(retryTime, fmt.Errorf("%s: others change them at the same time", what))
}
