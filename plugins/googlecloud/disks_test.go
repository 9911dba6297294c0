package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"
)

// maxDescription is how long the description of a disk may be.
const maxDescription = 2048

// Labels, as the documentation allows them.
var (
	labelKey   = regexp.MustCompile(`^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]{0,62}$`)
	labelValue = regexp.MustCompile(`^[\p{Ll}\p{Lo}\p{N}_-]{0,63}$`)
	diskSource = regexp.MustCompile(`^(?:https://www.googleapis.com/compute/v1/)?projects/` + project + `/zones/([-a-z0-9]+)/disks/([-a-z0-9]+)$`)
	diskType   = regexp.MustCompile(`^projects/` + project + `/zones/([-a-z0-9]+)/diskTypes/([-a-z0-9]+)$`)
)

// fingerprint is that of labels.
func fingerprint(labels map[string]string) string {
	text, _ := json.Marshal(labels)
	hash := sha256.Sum256(text)
	return base64.URLEncoding.EncodeToString(hash[:8])
}

func zoneURL(zone string) string {
	return "https://www.googleapis.com/compute/v1/projects/" + project + "/zones/" + zone
}

// checkLabels are what is wrong with labels; nil: nothing.
func checkLabels(labels map[string]string) *refusal {
	for key, value := range labels {
		if !labelKey.MatchString(key) || !labelValue.MatchString(value) {
			return &refusal{400, "invalid", fmt.Sprintf("Invalid value for field 'labels': %q=%q", key, value)}
		}
	}
	if len(labels) > maxLabels {
		return &refusal{400, "invalid", "too many labels"}
	}
	return nil
}

// disk answers what is asked of disks.
func (s *server) disk(id string, in map[string]string, r *http.Request, body []byte) (any, *refusal) {
	if in["zone"] != "eu-a" && in["zone"] != "eu-b" {
		return nil, &refusal{400, "invalid", "Invalid value for field 'zone': '" + in["zone"] + "'. Unknown zone."}
	}
	query := r.URL.Query()
	one := s.disks[in["zone"]+"/"+first(in["disk"], in["resource"], "none")]
	switch id {
	case "compute.disks.insert":
		return s.insertDisk(in["zone"], query.Get("requestId"), strict[compute.Disk](s, body))
	case "compute.diskTypes.get":
		valid, known := s.diskTypes[in["zone"]+"/"+in["diskType"]]
		if !known {
			return nil, &refusal{404, "notFound", "The resource 'diskTypes/" + in["diskType"] + "' was not found"}
		}
		return &compute.DiskType{Name: in["diskType"], ValidDiskSize: valid}, nil
	}
	if one == nil {
		return nil, &refusal{404, "notFound", "The resource 'disks/" + first(in["disk"], in["resource"]) + "' was not found"}
	}
	switch id {
	case "compute.disks.get":
		s.look()
		return found(s.disks[in["zone"]+"/"+in["disk"]].copy(), "disk")
	case "compute.disks.setLabels":
		return s.setLabels(one, strict[compute.ZoneSetLabelsRequest](s, body))
	case "compute.disks.delete":
		return s.deleteDisk(one)
	}
	s.object("nothing answers %s", id)
	return nil, &refusal{500, "internalError", id}
}

// volumeDisk is a disk of the world.
type volumeDisk struct{ compute.Disk }

func (d *volumeDisk) copy() *compute.Disk {
	if d == nil {
		return nil
	}
	out := d.Disk
	return &out
}

// listDisks is disks.aggregatedList.
func (s *server) listDisks(filter, token string, stale bool) *compute.DiskAggregatedList {
	expression, _ := strings.CutPrefix(filter, "name eq ")
	match := regexp.MustCompile("^(?:" + expression + ")$")
	var all []*compute.Disk
	for _, key := range slices.Sorted(maps.Keys(s.disks)) {
		if d := s.disks[key]; match.MatchString(d.Name) {
			all = append(all, d.copy())
		}
	}
	items, next := page(s, "disks "+filter, all, token, stale)
	list := &compute.DiskAggregatedList{NextPageToken: next, Items: map[string]compute.DisksScopedList{}, Unreachables: s.unreachable}
	for _, scope := range []string{"regions/eu", "zones/eu-a", "zones/eu-b"} {
		in := compute.DisksScopedList{Warning: &compute.DisksScopedListWarning{Code: "NO_RESULTS_ON_PAGE", Message: "There are no results for scope '" + scope + "' on this page."}}
		for _, d := range items {
			if strings.HasSuffix(d.Zone, scope) {
				in.Disks, in.Warning = append(in.Disks, d), nil
			}
		}
		list.Items[scope] = in
	}
	return list
}

// insertDisk is disks.insert. The disk is there at once, and ready when the operation is done.
func (s *server) insertDisk(zone, request string, d *compute.Disk) (any, *refusal) {
	if s.requests[request] != "" {
		return s.begin("", "", request, nil), nil
	}
	t := diskType.FindStringSubmatch(d.Type)
	key := zone + "/" + d.Name
	switch {
	case t == nil || t[1] != zone || !s.hasType(t[1]+"/"+t[2]):
		return nil, &refusal{400, "invalid", "Invalid value for field 'resource.type': '" + d.Type + "'"}
	case s.disks[key] != nil:
		return nil, &refusal{409, "alreadyExists", "The resource 'disks/" + d.Name + "' already exists"}
	case len(d.Description) > maxDescription:
		return nil, &refusal{400, "invalid", "Invalid value for field 'resource.description'"}
	case s.exhausted["disks"] == "quotaExceeded":
		return nil, &refusal{403, "quotaExceeded", "Quota 'SSD_TOTAL_GB' exceeded. Limit: 500.0 in region eu."}
	}
	if wrong := checkLabels(d.Labels); wrong != nil {
		return nil, wrong
	}
	least, most, _ := strings.Cut(s.diskTypes[zone+"/"+t[2]], "-")
	if from, ok := gigabytes(least); ok && d.SizeGb < from {
		return nil, &refusal{400, "invalid", "Disk size cannot be smaller than " + least}
	}
	if to, ok := gigabytes(most); ok && d.SizeGb > to {
		return nil, &refusal{400, "invalid", "Disk size cannot be larger than " + most}
	}
	if code := s.exhausted["disks"]; code != "" {
		return s.begin("insert", "zones/"+zone, request, func() *compute.OperationErrorErrors {
			return &compute.OperationErrorErrors{Code: code, Message: "Quota 'SSD_TOTAL_GB' exceeded."}
		}), nil
	}
	one := s.addDisk(zone, d)
	one.Status = "CREATING"
	return s.begin("insert", "zones/"+zone, request, func() *compute.OperationErrorErrors {
		one.Status = "READY"
		return nil
	}), nil
}

func (w *world) hasType(key string) bool {
	_, known := w.diskTypes[key]
	return known
}

// addDisk puts a disk into a zone.
func (w *world) addDisk(zone string, d *compute.Disk) *volumeDisk {
	w.next++
	one := &volumeDisk{*d}
	one.Id, one.Zone, one.CreationTimestamp, one.Status, one.LabelFingerprint = w.next, zoneURL(zone), time.Now().Format(time.RFC3339), "READY", fingerprint(d.Labels)
	one.SelfLink = one.Zone + "/disks/" + d.Name
	w.disks[zone+"/"+d.Name] = one
	return one
}

// setLabels is disks.setLabels. Who is first with a fingerprint wins, also where both were accepted.
func (s *server) setLabels(d *volumeDisk, q *compute.ZoneSetLabelsRequest) (any, *refusal) {
	if q.LabelFingerprint != d.LabelFingerprint {
		return nil, &refusal{412, "conditionNotMet", "Labels fingerprint either invalid or resource labels have changed"}
	}
	if wrong := checkLabels(q.Labels); wrong != nil {
		return nil, wrong
	}
	return s.begin("setLabels", "zones/"+short(d.Zone), "", func() *compute.OperationErrorErrors {
		if q.LabelFingerprint != d.LabelFingerprint {
			return &compute.OperationErrorErrors{Code: "CONDITION_NOT_MET", Message: "Labels fingerprint either invalid or resource labels have changed"}
		}
		d.Labels, d.LabelFingerprint = q.Labels, fingerprint(q.Labels)
		return nil
	}), nil
}

func used(d *volumeDisk) string {
	return fmt.Sprintf("The disk resource 'disks/%s' is already being used by '%s'", d.Name, strings.Join(d.Users, ", "))
}

// deleteDisk is disks.delete.
func (s *server) deleteDisk(d *volumeDisk) (any, *refusal) {
	if len(d.Users) > 0 {
		return nil, &refusal{400, "resourceInUseByAnotherResource", used(d)}
	}
	if d.Status != "READY" {
		return nil, &refusal{400, "resourceNotReady", "The resource 'disks/" + d.Name + "' is not ready"}
	}
	d.Status = "DELETING"
	return s.begin("delete", "zones/"+short(d.Zone), "", func() *compute.OperationErrorErrors {
		delete(s.disks, short(d.Zone)+"/"+d.Name)
		return nil
	}), nil
}

// attachDisk is instances.attachDisk.
func (s *server) attachDisk(one *vm, request string, a *compute.AttachedDisk) (any, *refusal) {
	if s.requests[request] != "" {
		return s.begin("", "", request, nil), nil
	}
	source := diskSource.FindStringSubmatch(a.Source)
	if source == nil {
		return nil, &refusal{400, "invalid", "Invalid value for field 'resource.source': '" + a.Source + "'"}
	}
	d := s.disks[source[1]+"/"+source[2]]
	switch {
	case source[1] != short(one.Zone):
		return nil, &refusal{400, "invalid", "Disk must be in the same zone as the instance"}
	case d == nil:
		return nil, &refusal{404, "notFound", "The resource '" + a.Source + "' was not found"}
	case one.Status != "RUNNING" && one.Status != "TERMINATED" || d.Status != "READY":
		return nil, &refusal{400, "resourceNotReady", "The resource is not ready"}
	case slices.ContainsFunc(one.Disks, func(other *compute.AttachedDisk) bool { return other.DeviceName == a.DeviceName }):
		return nil, &refusal{400, "invalid", "The device name '" + a.DeviceName + "' is in use"}
	case len(d.Users) > 0:
		return nil, &refusal{400, "resourceInUseByAnotherResource", used(d)}
	}
	op := s.begin("attachDisk", "zones/"+source[1], request, func() *compute.OperationErrorErrors {
		switch {
		case len(d.Users) > 0:
			return &compute.OperationErrorErrors{Code: "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", Message: used(d)}
		case s.vms[short(one.Zone)+"/"+one.Name] != one:
			return &compute.OperationErrorErrors{Code: "RESOURCE_NOT_FOUND", Message: "The instance was not found"}
		}
		s.put(d, one, a.DeviceName, a.AutoDelete)
		return nil
	})
	s.ops[op.Name].TargetId = one.Id
	return op, nil
}

// put attaches a disk.
func (w *world) put(d *volumeDisk, one *vm, deviceName string, autoDelete bool) {
	d.Users = []string{one.Zone + "/instances/" + one.Name}
	one.Disks = append(slices.Clone(one.Disks), &compute.AttachedDisk{Source: d.SelfLink, DeviceName: deviceName, Mode: "READ_WRITE", AutoDelete: autoDelete})
}

// detachDisk is instances.detachDisk.
func (s *server) detachDisk(one *vm, deviceName string) (any, *refusal) {
	on := func(a *compute.AttachedDisk) bool { return a.DeviceName == deviceName }
	i := slices.IndexFunc(one.Disks, on)
	switch {
	case i < 0:
		return nil, &refusal{400, "invalid", "No attached disk found with device name '" + deviceName + "'"}
	case one.Status != "RUNNING" && one.Status != "TERMINATED":
		return nil, &refusal{400, "resourceNotReady", "The resource 'instances/" + one.Name + "' is not ready"}
	}
	source := diskSource.FindStringSubmatch(one.Disks[i].Source)
	d := s.disks[source[1]+"/"+source[2]]
	op := s.begin("detachDisk", "zones/"+source[1], "", func() *compute.OperationErrorErrors {
		if slices.ContainsFunc(one.Disks, on) {
			d.Users, one.Disks = nil, slices.DeleteFunc(slices.Clone(one.Disks), on)
		}
		return nil
	})
	s.ops[op.Name].TargetId = one.Id
	return op, nil
}

// boot gives an instance its boot disk.
func (w *world) boot(zone string, one *vm) {
	d := w.addDisk(zone, &compute.Disk{Name: one.Name, SizeGb: 50})
	one.Disks = nil
	w.put(d, one, "persistent-disk-0", true)
}

// letGo is what becomes of the disks of an instance that is gone.
func (w *world) letGo(one *vm) {
	for _, a := range one.Disks {
		source := diskSource.FindStringSubmatch(a.Source)
		key := source[1] + "/" + source[2]
		if w.disks[key].Users = nil; a.AutoDelete {
			delete(w.disks, key)
		}
	}
}

// volumeDisks are the disks that are volumes, by the numbers in the ids of those.
func (w *world) volumeDisks() map[string]*volumeDisk {
	out := map[string]*volumeDisk{}
	for _, d := range w.disks {
		if strings.HasPrefix(d.Name, "rung-volume-") {
			out[fmt.Sprintf("%s/%s/%s", short(d.Zone), strconv.FormatUint(d.Id, 10), d.Name)] = d
		}
	}
	return out
}
