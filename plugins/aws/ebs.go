package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rungci/rung/sdk/instancegroup"
)

// ebs is an EBS volume.
type ebs struct {
	instancegroup.Volume
	status       types.VolumeState
	state        types.VolumeAttachmentState // of Instance
	marked       bool                        // it was made by this plugin
	epoch, fence uint64
}

func (v *ebs) exists() bool {
	return v.status != types.VolumeStateDeleting && v.status != types.VolumeStateDeleted
}

// Tags of volumes beside those of their labels.
const (
	ownTags   = "rung-volume-"
	epochTag  = ownTags + "epoch" // every volume has it
	fenceTag  = ownTags + "fence"
	packedTag = ownTags + "labels-" // and a number: labels that EC2 does not have as tags
)

// Limits of EC2. perVolumes is how many volumes a page has.
const (
	maxTags       = 50
	maxKey        = 128
	maxValue      = 256
	perVolumes    = 500
	maxPlainTags  = 40 // the rest is packed
	minPlainTags  = 3  // if packed ones need the others: the epoch, the owner and the request
	devicePrefix  = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"
	deviceLetters = "fghijklmnop" // those that EC2 recommends for EBS volumes: /dev/sd[f-p]
)

// devicePath is where udev has the device of a volume on a machine with NVMe: its serial number is the id without the hyphen.
func devicePath(id string) string { return devicePrefix + strings.Replace(id, "-", "", 1) }

// freeNames are the device names that EC2 has left for a machine. The machine itself does not know them: they only have to differ. To EC2, sdf and xvdf are the same one.
func freeNames(m *types.Instance) (free []string) {
	taken := map[string]bool{}
	for _, b := range m.BlockDeviceMappings {
		name := strings.TrimPrefix(aws.ToString(b.DeviceName), "/dev/")
		name = strings.TrimPrefix(strings.TrimPrefix(name, "xvd"), "sd")
		taken[strings.TrimRight(name, "0123456789")] = true
	}
	for _, letter := range deviceLetters {
		if !taken[string(letter)] {
			free = append(free, "/dev/sd"+string(letter))
		}
	}
	return free
}

// volumeOf is what an EBS volume is to the contract.
func volumeOf(v types.Volume) (*ebs, error) {
	out := &ebs{status: v.State, Volume: instancegroup.Volume{
		ID: aws.ToString(v.VolumeId), Size: int64(aws.ToInt32(v.Size)) * gib, Zone: aws.ToString(v.AvailabilityZone), Created: aws.ToTime(v.CreateTime),
	}}
	for _, a := range v.Attachments {
		if a.State != types.VolumeAttachmentStateDetached {
			out.Instance, out.state = aws.ToString(a.InstanceId), a.State
			break
		}
	}
	all := labelsOf(v.Tags)
	_, out.marked = all[epochTag]
	out.Labels = unpack(all)
	out.Request = out.Labels[instancegroup.RequestLabel]
	for tag, number := range map[string]*uint64{epochTag: &out.epoch, fenceTag: &out.fence} {
		text, ok := all[tag]
		if !ok {
			continue
		}
		var err error
		if *number, err = strconv.ParseUint(text, 10, 64); err != nil {
			return out, fmt.Errorf("the tag %s of the volume %s is %q, which is not a number: somebody has changed it; if the volume is on no machine, set it to that of its last attachment, or delete the volume", tag, out.ID, text)
		}
	}
	return out, nil
}

// plain reports whether EC2 has a label as a tag, unchanged.
func plain(key, value string) bool {
	if key == "" || len(key) > maxKey || len(value) > maxValue || strings.HasPrefix(strings.ToLower(key), "aws:") || strings.HasPrefix(key, ownTags) {
		return false
	}
	for _, text := range []string{key, value} {
		if text != strings.TrimSpace(text) || strings.ContainsFunc(text, func(c rune) bool {
			return c == unicode.ReplacementChar || !unicode.IsLetter(c) && !unicode.IsNumber(c) && !strings.ContainsRune(" +-=._:/@", c)
		}) {
			return false
		}
	}
	return true
}

// pack are the tags for labels. Those that EC2 would not have as they are become JSON, in base64, in as many tags as that needs.
func pack(labels map[string]string) ([]types.Tag, error) {
	must := func(key string) int { // by which volumes are found
		if key == instancegroup.OwnerLabel || key == instancegroup.RequestLabel {
			return 0
		}
		return 1
	}
	keys := slices.SortedFunc(maps.Keys(labels), func(a, b string) int { return cmp.Or(must(a)-must(b), strings.Compare(a, b)) })
	for _, room := range []int{maxPlainTags, minPlainTags} {
		tags := map[string]string{epochTag: "0"}
		rest := map[string]string{}
		for _, key := range keys {
			if plain(key, labels[key]) && len(tags) < room {
				tags[key] = labels[key]
			} else {
				rest[key] = labels[key]
			}
		}
		if err := packInto(tags, rest); err != nil {
			return nil, err
		}
		if len(tags) >= maxTags { // the fence comes later
			continue
		}
		var out []types.Tag
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
		}
		return out, nil
	}
	return nil, &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: fmt.Sprintf(
		"the %d labels of the volume do not fit into the %d tags that EC2 has for one: use fewer or shorter ones", len(labels), maxTags)}
}

func packInto(tags, labels map[string]string) error {
	if len(labels) == 0 {
		return nil
	}
	text, err := json.Marshal(labels)
	if err != nil {
		return err
	}
	n := 0
	for part := range slices.Chunk([]byte(base64.RawURLEncoding.EncodeToString(text)), maxValue) {
		tags[packedTag+strconv.Itoa(n)] = string(part)
		n++
	}
	return nil
}

// unpack are the labels of tags. What somebody has broken is missing.
func unpack(tags map[string]string) map[string]string {
	labels := map[string]string{}
	for key, value := range tags {
		if !strings.HasPrefix(key, ownTags) {
			labels[key] = value
		}
	}
	var packed strings.Builder
	for n := 0; ; n++ {
		part, ok := tags[packedTag+strconv.Itoa(n)]
		if !ok {
			break
		}
		packed.WriteString(part)
	}
	rest := map[string]string{}
	if text, err := base64.RawURLEncoding.DecodeString(packed.String()); err == nil && json.Unmarshal(text, &rest) == nil {
		maps.Copy(labels, rest)
	}
	return labels
}

// search are the volumes of this owner that exist, the oldest first. more are further filters.
func (s *disks) search(ctx context.Context, more ...types.Filter) (all []*ebs, err error) {
	filters := append([]types.Filter{
		{Name: aws.String("tag:" + instancegroup.OwnerLabel), Values: []string{s.settings.Owner}}, {Name: aws.String("tag-key"), Values: []string{epochTag}},
	}, more...)
	err = pages(ctx, s.api, s.api.ec2.DescribeVolumes, &ec2.DescribeVolumesInput{Filters: filters, MaxResults: aws.Int32(perVolumes)},
		func(in *ec2.DescribeVolumesInput, token *string) { in.NextToken = token },
		func(out *ec2.DescribeVolumesOutput) *string { return out.NextToken },
		func(page *ec2.DescribeVolumesOutput) {
			for _, one := range page.Volumes {
				if v, _ := volumeOf(one); s.owns(v) && v.exists() { // tags that are not numbers keep a volume from machines, and not from lists
					all = append(all, v)
				}
			}
		})
	slices.SortFunc(all, func(a, b *ebs) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	return all, err
}

// list are the volumes of this owner, with those that EC2 does not list yet, and without those that it lists still.
func (s *disks) list(ctx context.Context) (out []instancegroup.Volume, err error) {
	began := time.Now()
	all, err := s.search(ctx)
	if err != nil {
		return nil, err
	}
	s.disksMu.Lock()
	defer s.disksMu.Unlock()
	listed := map[string]bool{}
	for _, v := range all {
		listed[v.ID] = true
		if _, ended := s.ended[v.ID]; !ended {
			out = append(out, v.Volume)
		}
	}
	for request, v := range s.made {
		_, ended := s.ended[v.ID]
		switch {
		case listed[v.ID] || ended:
			delete(s.made, request)
		case began.Sub(v.Created) < lag:
			out = append(out, v.Volume)
		}
	}
	for id, when := range s.ended {
		if !listed[id] && began.Sub(when) > lag {
			delete(s.ended, id)
			delete(s.known, id)
		}
	}
	return out, nil
}

// hasEnded reports whether a volume was deleted here.
func (s *disks) hasEnded(id string) bool {
	s.disksMu.Lock()
	defer s.disksMu.Unlock()
	_, ended := s.ended[id]
	return ended
}

// isNew reports whether a volume was made here a short while ago.
func (s *disks) isNew(id string) bool {
	s.disksMu.Lock()
	defer s.disksMu.Unlock()
	for _, v := range s.made {
		if v.ID == id {
			return time.Since(v.Created) < lag
		}
	}
	return false
}

// sizes are what EBS volumes of a type have at least, and at most, in GiB.
var sizes = map[types.VolumeType]struct{ least, most int64 }{
	types.VolumeTypeGp3: {1, 65536}, types.VolumeTypeGp2: {1, 16384}, types.VolumeTypeIo1: {4, 16384}, types.VolumeTypeIo2: {4, 65536},
	types.VolumeTypeSt1: {125, 16384}, types.VolumeTypeSc1: {125, 16384}, types.VolumeTypeStandard: {1, 1024},
}

// wrongOptions are what EC2 says of a volume that it does not make as it is asked for, now or later.
var wrongOptions = []string{"InvalidParameterValue", "InvalidParameterCombination", "InvalidParameter", "MissingParameter"}

// create makes a volume, unless there is one of the request.
func (s *disks) create(ctx context.Context, r instancegroup.VolumeRequest) (none instancegroup.Volume, err error) {
	give, err := s.turns.Take(ctx, "request "+r.ID)
	if err != nil {
		return none, err
	}
	defer give()
	all, err := s.search(ctx, types.Filter{Name: aws.String("tag:" + instancegroup.RequestLabel), Values: []string{r.ID}})
	switch {
	case err != nil:
		return none, err
	case len(all) > 0:
		return s.ready(ctx, all[0])
	}
	if err := s.vanished(r.ID); err != nil {
		return none, err
	}
	in, err := s.order(ctx, r)
	if err != nil {
		return none, err
	}
	out, err := call(ctx, s.api, s.api.ec2.CreateVolume, in)
	switch {
	case err == nil:
	case errors.Is(err, errLost) && !errors.Is(err, instancegroup.ErrTransient): // what EC2 says of the last try is not about the one whose answer did not come
		return none, &instancegroup.Error{Kind: instancegroup.ErrUncertain, Message: err.Error()}
	case slices.Contains(wrongOptions, codeOf(err)):
		return none, &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: fmt.Sprintf("%v; check the options of volumes", err)}
	default:
		return none, err
	}
	v := &ebs{status: out.State, Volume: instancegroup.Volume{
		ID: aws.ToString(out.VolumeId), Request: r.ID, Size: int64(aws.ToInt32(out.Size)) * gib, Zone: aws.ToString(out.AvailabilityZone), Labels: maps.Clone(r.Labels), Created: time.Now(),
	}}
	s.disksMu.Lock()
	if first := s.made[r.ID]; first != nil {
		v.Created = first.Created // the same token has the same volume
	}
	s.made[r.ID] = v
	s.disksMu.Unlock()
	return s.ready(ctx, v)
}

// vanished is the error for a volume that EC2 has made, and does not show after a long while. Then it was never there: EC2 finds out later that it cannot use a key.
func (s *disks) vanished(request string) error {
	s.disksMu.Lock()
	defer s.disksMu.Unlock()
	v := s.made[request]
	if v == nil || time.Since(v.Created) < lag {
		return nil
	}
	delete(s.made, request)
	return failed(v.ID, "it has vanished")
}

func failed(id, how string) error {
	return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf(
		"EC2 could not make the volume %s: %s; check that the credentials may use the KMS key for it (volume_kms_key, or the account's default for EBS)", id, how)}
}

// ready returns a volume once it can be attached.
func (s *disks) ready(ctx context.Context, v *ebs) (none instancegroup.Volume, err error) {
	switch v.status {
	case types.VolumeStateAvailable, types.VolumeStateInUse:
		return v.Volume, nil
	case types.VolumeStateError:
		err = s.with(ctx, v.ID, func(d *disk) error { return s.delete(ctx, d, v.ID) })
		return none, errors.Join(failed(v.ID, "it is in the state error, and is deleted"), err)
	}
	return none, notYet("the volume %s is not available yet (%s)", v.ID, v.status)
}

// order is the call for a volume. Its token follows from the request alone: EC2 makes one volume with it, and refuses another one with ErrUncertain.
func (s *disks) order(ctx context.Context, r instancegroup.VolumeRequest) (*ec2.CreateVolumeInput, error) {
	kind := types.VolumeType(s.VolumeType)
	size := r.Size / gib
	if r.Size%gib > 0 {
		size++
	}
	size = max(size, sizes[kind].least)
	if most := sizes[kind].most; size > most {
		return nil, &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: fmt.Sprintf("a volume of the type %s has at most %d GiB, not %d", kind, most, size)}
	}
	tags, err := pack(r.Labels)
	if err != nil {
		return nil, err
	}
	if r.Zone == "" {
		if r.Zone, err = s.zone(ctx); err != nil {
			return nil, err
		}
	}
	sum := sha256.Sum256([]byte(s.settings.Owner + "\x00volume\x00" + r.ID))
	in := &ec2.CreateVolumeInput{
		ClientToken: aws.String(hex.EncodeToString(sum[:16])), AvailabilityZone: aws.String(r.Zone), Encrypted: aws.Bool(true), Size: aws.Int32(int32(size)), VolumeType: kind,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeVolume, Tags: tags}},
	}
	if s.VolumeKMSKey != "" {
		in.KmsKeyId = aws.String(s.VolumeKMSKey)
	}
	if s.VolumeIOPS > 0 {
		in.Iops = aws.Int32(int32(s.VolumeIOPS))
	}
	if s.VolumeThroughput > 0 {
		in.Throughput = aws.Int32(int32(s.VolumeThroughput))
	}
	return in, nil
}

// zone is where a volume is made that may be anywhere: where most machines of the group are, or else would be.
func (s *disks) zone(ctx context.Context) (most string, err error) {
	seen, err := s.look(ctx)
	if err != nil {
		return "", err
	}
	count := map[string]int{}
	for _, m := range seen {
		if m.Zone != "" && m.State.Exists() {
			count[m.Zone]++
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(count)) {
		if count[zone] > count[most] {
			most = zone
		}
	}
	if most != "" {
		return most, nil
	}
	return s.source.zone(ctx)
}
