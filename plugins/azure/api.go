package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/rungci/rung/sdk/instancegroup"
)

// azure is a resource group, and how it is asked.
type azure struct {
	Options
	settings instancegroup.Settings
	log      instancegroup.Logger
	calls    instancegroup.Limiter
	sets     *armcompute.VirtualMachineScaleSetsClient
	members  *armcompute.VirtualMachineScaleSetVMsClient
	vms      *armcompute.VirtualMachinesClient
	skus     *armcompute.ResourceSKUsClient
	nics     *armnetwork.InterfacesClient
	public   *armnetwork.PublicIPAddressesClient
	pushed   pushed
}

// connect makes the clients of the APIs.
func connect(o Options, log instancegroup.Logger) (*azure, error) {
	credential, err := o.credential()
	if err != nil {
		return nil, err
	}
	with := &arm.ClientOptions{ClientOptions: o.clientOptions(), DisableRPRegistration: true}
	compute, err := armcompute.NewClientFactory(o.SubscriptionID, credential, with)
	if err != nil {
		return nil, err
	}
	network, err := armnetwork.NewClientFactory(o.SubscriptionID, credential, with)
	if err != nil {
		return nil, err
	}
	a := &azure{
		Options: o, log: log, sets: compute.NewVirtualMachineScaleSetsClient(), members: compute.NewVirtualMachineScaleSetVMsClient(), vms: compute.NewVirtualMachinesClient(),
		skus: compute.NewResourceSKUsClient(), nics: network.NewInterfacesClient(), public: network.NewPublicIPAddressesClient(),
	}
	a.calls.PerSecond = o.CallsPerSecond
	return a, nil
}

// do makes one call of the API, in its turn, and again if that may help.
func do[T any](ctx context.Context, a *azure, what string, call func(ctx context.Context) (T, error)) (out T, err error) {
	err = a.calls.Do(ctx, func(ctx context.Context) (err error) {
		out, err = call(ctx)
		return failure(ctx, what, err)
	})
	return out, err
}

// all reads all pages of a list. A pager is of no use after an error, so that the list is read again from its beginning.
func all[T any](ctx context.Context, a *azure, what string, pager func() *runtime.Pager[T], each func(T)) error {
	var pages []T
	_, err := do(ctx, a, what, func(ctx context.Context) (any, error) {
		pages = nil
		for p := pager(); p.More(); {
			page, err := p.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			pages = append(pages, page)
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	for _, page := range pages {
		each(page)
	}
	return nil
}

// said is the text of an error that Azure has answered with.
func said(err *azcore.ResponseError) string {
	const most = 64 << 10
	var body struct {
		Error struct{ Message string } `json:"error"`
	}
	if err.RawResponse == nil || err.RawResponse.Body == nil {
		return http.StatusText(err.StatusCode)
	}
	text, failed := io.ReadAll(io.LimitReader(err.RawResponse.Body, most))
	if failed == nil {
		_ = json.Unmarshal(text, &body)
	}
	return cmp.Or(body.Error.Message, http.StatusText(err.StatusCode))
}

// scaleSet reads the scale set.
func (a *azure) scaleSet(ctx context.Context) (*armcompute.VirtualMachineScaleSet, error) {
	set, err := do(ctx, a, fmt.Sprintf("the scale set %q", a.ScaleSet), func(ctx context.Context) (armcompute.VirtualMachineScaleSetsClientGetResponse, error) {
		return a.sets.Get(ctx, a.ResourceGroup, a.ScaleSet, &armcompute.VirtualMachineScaleSetsClientGetOptions{Expand: to.Ptr(armcompute.ExpandTypesForGetVMScaleSetsUserData)})
	})
	return &set.VirtualMachineScaleSet, err
}

// Metrics implements instancegroup.Meter.
func (a *azure) Metrics(context.Context) ([]instancegroup.Metric, error) {
	return a.calls.Metrics(), nil
}
