package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// What moto lacks of volumes, as EC2's documentation has it: AttachVolume, DetachVolume and CreateVolume in the API reference, and "Error codes for the Amazon EC2 API".

// volumesOneByOne is held from a look at a volume until moto has changed it.
var volumesOneByOne sync.Mutex

// volumeCall answers a call about a volume, if moto would do what EC2 does not.
func (c *cloud) volumeCall(call apiCall) (answer, bool) {
	if c.api == nil {
		return answer{}, false
	}
	refuse := func(code, format string, args ...any) (answer, bool) {
		return refused(call, http.StatusBadRequest, code, fmt.Sprintf(format, args...)), true
	}
	switch call.operation {
	case "CreateVolume":
		// "Valid sizes", by type, and zones: moto takes any.
		size, _ := strconv.ParseInt(call.form.Get("Size"), 10, 64)
		if limits, ok := sizes[types.VolumeType(call.form.Get("VolumeType"))]; !ok || size < limits.least || size > limits.most {
			return refuse("InvalidParameterValue", "Volume of %dGiB is not for volume type %s", size, call.form.Get("VolumeType"))
		}
		if zone := call.form.Get("AvailabilityZone"); !slices.Contains([]string{"eu-west-1a", "eu-west-1b", "eu-west-1c"}, zone) {
			return refuse("InvalidZone.NotFound", "The zone '%s' does not exist.", zone)
		}
	case "AttachVolume":
		return c.attachRefusal(call, refuse)
	case "DetachVolume":
		v := c.motoVolume(call.form.Get("VolumeId"))
		switch {
		case v == nil: // moto refuses
		case len(v.Attachments) == 0: // moto has InvalidAttachment.NotFound
			return refuse("IncorrectState", "Volume '%s' is in the 'available' state.", aws.ToString(v.VolumeId))
		case call.form.Get("InstanceId") == "": // which is optional in EC2, and not in moto
			call.form.Set("InstanceId", aws.ToString(v.Attachments[0].InstanceId))
			return c.forwardForm(c.t, call), true
		case call.form.Get("InstanceId") != aws.ToString(v.Attachments[0].InstanceId): // moto finds no device of that name there
			return refuse("InvalidAttachment.NotFound", "The volume is not attached to this instance.")
		}
	}
	return answer{}, false
}

// attachRefusal is why EC2 attaches no such volume to such an instance: moto takes it from where it is.
func (c *cloud) attachRefusal(call apiCall, refuse func(code, format string, args ...any) (answer, bool)) (answer, bool) {
	v := c.motoVolume(call.form.Get("VolumeId"))
	id, device := call.form.Get("InstanceId"), call.form.Get("Device")
	all, err := c.api.describe(c.t.Context(), &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("instance-id"), Values: []string{id}}}})
	if v == nil || err != nil || len(all) == 0 { // moto refuses
		return answer{}, false
	}
	m := all[0]
	switch {
	case device == "":
		return refuse("MissingParameter", "The request must contain the parameter device")
	case len(v.Attachments) > 0:
		return refuse("VolumeInUse", "%s is already attached to an instance", aws.ToString(v.VolumeId))
	case m.State.Name != types.InstanceStateNameRunning && m.State.Name != types.InstanceStateNameStopped:
		return refuse("IncorrectState", "Instance '%s' is not 'running'.", id)
	case aws.ToString(m.Placement.AvailabilityZone) != aws.ToString(v.AvailabilityZone):
		return refuse("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", aws.ToString(v.VolumeId), id)
	case slices.ContainsFunc(m.BlockDeviceMappings, func(b types.InstanceBlockDeviceMapping) bool { return aws.ToString(b.DeviceName) == device }):
		return refuse("InvalidParameterValue", "Invalid value '%s' for unixDevice. Attachment point %s is already in use", device, device)
	}
	return answer{}, false
}

// motoVolume is a volume as moto has it; nil: there is none.
func (c *cloud) motoVolume(id string) *types.Volume {
	out, err := c.api.ec2.DescribeVolumes(c.t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if err != nil || len(out.Volumes) != 1 {
		return nil
	}
	return &out.Volumes[0]
}

// inState puts a state into answers about volumes in place of another one.
func inState(from, to string) func(*cloud, apiCall, func() answer) (answer, bool) {
	return func(_ *cloud, _ apiCall, forward func() answer) (answer, bool) {
		a := forward()
		a.body = []byte(strings.ReplaceAll(string(a.body), "<status>"+from+"</status>", "<status>"+to+"</status>"))
		return a, true
	}
}
