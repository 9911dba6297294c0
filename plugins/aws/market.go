package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rungci/rung/sdk/instancegroup"
)

// market is what the shapes of the options are, and cost.
type market struct {
	*Group
	kinds map[string]types.InstanceTypeInfo

	mu     sync.Mutex
	prices map[string]float64 // of spot machines, by instance type
	priced time.Time
}

// priceTime is how long spot prices are believed.
const priceTime = 10 * time.Minute

const gib = 1 << 30

// openMarket asks AWS what the instance types are.
func openMarket(ctx context.Context, g *Group) (*market, error) {
	m := &market{Group: g, kinds: map[string]types.InstanceTypeInfo{}}
	var wanted []types.InstanceType
	for _, s := range g.Shapes {
		for _, kind := range s.InstanceTypes {
			if !slices.Contains(wanted, types.InstanceType(kind)) {
				wanted = append(wanted, types.InstanceType(kind))
			}
		}
	}
	for part := range slices.Chunk(wanted, perTypes) {
		out, err := call(ctx, g.api, g.api.ec2.DescribeInstanceTypes, &ec2.DescribeInstanceTypesInput{InstanceTypes: part})
		if err != nil {
			return nil, fmt.Errorf(`the "instance_types" of the shapes: %w`, err)
		}
		for _, info := range out.InstanceTypes {
			m.kinds[string(info.InstanceType)] = info
		}
	}
	for _, s := range g.Shapes {
		if err := m.check(s); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// perTypes is how many instance types one call describes.
const perTypes = 100

// check returns an error where the instance types of a shape are not for the same images.
func (m *market) check(s Shape) error {
	first := arch(m.kinds[s.InstanceTypes[0]])
	for _, kind := range s.InstanceTypes {
		info, ok := m.kinds[kind]
		if !ok {
			return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("EC2 does not know the instance type %q of the shape %q", kind, s.Name)}
		}
		if arch(info) != first {
			return fmt.Errorf("the instance types %s and %s of the shape %q have different architectures", s.InstanceTypes[0], kind, s.Name)
		}
	}
	return nil
}

// arch is the architecture of an instance type, as GOARCH has it.
func arch(info types.InstanceTypeInfo) string {
	if info.ProcessorInfo == nil {
		return ""
	}
	for _, a := range info.ProcessorInfo.SupportedArchitectures {
		switch a {
		case types.ArchitectureTypeX8664, types.ArchitectureTypeX8664Mac:
			return "amd64"
		case types.ArchitectureTypeArm64, types.ArchitectureTypeArm64Mac:
			return "arm64"
		}
	}
	return ""
}

// offers are the shapes, each on demand, as spot machine, or both.
func (m *market) offers(ctx context.Context) (out []instancegroup.Offer) {
	for _, s := range m.Shapes {
		o := m.offer(s)
		if s.onDemand() {
			o.Price, o.SuspendedPrice = s.Price, s.SuspendedPrice
			out = append(out, priced(o))
		}
		if s.Spot {
			o.Spot, o.Price, o.SuspendedPrice = true, s.SpotPrice, 0 // it cannot be stopped
			if o.Price == 0 {
				o.Price = m.spot(ctx, s)
			}
			out = append(out, priced(o))
		}
	}
	return out
}

func priced(o instancegroup.Offer) instancegroup.Offer {
	if o.Price > 0 || o.SuspendedPrice > 0 {
		o.Currency = "USD"
	}
	return o
}

// offer is what every machine of a shape has at least.
func (m *market) offer(s Shape) instancegroup.Offer {
	o := instancegroup.Offer{Shape: s.Name, OS: m.settings.OS, Disk: int64(s.DiskGiB * gib), Minimum: time.Minute, Step: time.Second}
	for i, kind := range s.InstanceTypes {
		info := m.kinds[kind]
		cpus, memory, gpus, gpu := size(info)
		if i == 0 {
			o.CPUs, o.Memory, o.GPUs, o.GPU, o.Arch = cpus, memory, gpus, gpu, arch(info)
		}
		o.CPUs, o.Memory, o.GPUs = min(o.CPUs, cpus), min(o.Memory, memory), min(o.GPUs, gpus)
		if gpu != o.GPU {
			o.GPU = ""
		}
		if strings.HasPrefix(kind, "mac") {
			o.Minimum = macMinimum
		}
	}
	return o
}

// macMinimum is how long a host of a Mac is paid for at least.
const macMinimum = 24 * time.Hour

func size(info types.InstanceTypeInfo) (cpus float64, memory int64, gpus int, gpu string) {
	if info.VCpuInfo != nil {
		cpus = float64(aws.ToInt32(info.VCpuInfo.DefaultVCpus))
	}
	if info.MemoryInfo != nil {
		memory = aws.ToInt64(info.MemoryInfo.SizeInMiB) << 20
	}
	if info.GpuInfo != nil {
		for _, g := range info.GpuInfo.Gpus {
			gpus += int(aws.ToInt32(g.Count))
			gpu = strings.TrimSpace(aws.ToString(g.Manufacturer) + " " + aws.ToString(g.Name))
		}
	}
	return cpus, memory, gpus, gpu
}

// spot is the lowest price of a shape's instance types now; 0 if it is not known.
func (m *market) spot(ctx context.Context, s Shape) (lowest float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.priced) > priceTime {
		m.priced = time.Now()
		if prices, err := m.ask(ctx); err != nil {
			m.log.Warn("the prices of spot machines are unknown", "error", err)
		} else {
			m.prices = prices
		}
	}
	for _, kind := range s.InstanceTypes {
		if p := m.prices[kind]; p > 0 && (lowest == 0 || p < lowest) {
			lowest = p
		}
	}
	return lowest
}

// ask asks for the lowest price of each instance type.
func (m *market) ask(ctx context.Context) (map[string]float64, error) {
	product := "Linux/UNIX"
	if m.settings.OS == windows {
		product = "Windows"
	}
	in := &ec2.DescribeSpotPriceHistoryInput{StartTime: aws.Time(time.Now()), ProductDescriptions: []string{product, product + " (Amazon VPC)"}}
	for kind := range m.kinds {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(kind))
	}
	prices := map[string]float64{}
	err := pages(ctx, m.api, m.api.ec2.DescribeSpotPriceHistory, in,
		func(in *ec2.DescribeSpotPriceHistoryInput, token *string) { in.NextToken = token },
		func(out *ec2.DescribeSpotPriceHistoryOutput) *string { return out.NextToken },
		func(page *ec2.DescribeSpotPriceHistoryOutput) {
			for _, p := range page.SpotPriceHistory {
				price, err := strconv.ParseFloat(aws.ToString(p.SpotPrice), 64)
				if old := prices[string(p.InstanceType)]; err == nil && price > 0 && (old == 0 || price < old) {
					prices[string(p.InstanceType)] = price
				}
			}
		})
	return prices, err
}
