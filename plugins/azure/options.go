package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// Options are those of the configuration. schema.json says what they mean to people.
type Options struct {
	SubscriptionID  string `json:"subscription_id"`
	ResourceGroup   string `json:"resource_group_name"`
	Credentials     string `json:"credentials"`
	CredentialsFile string `json:"credentials_file"`
	ClientID        string `json:"client_id"`

	// Of a scale set.
	ScaleSet string `json:"name"`

	// Of virtual machines of their own.
	Location      string   `json:"location"`
	Image         string   `json:"image"`
	Subnet        string   `json:"subnet"`
	SecurityGroup string   `json:"security_group"`
	PublicIP      bool     `json:"public_ip"`
	DiskSize      int32    `json:"disk_size_gb"`
	DiskType      string   `json:"disk_type"`
	CustomData    string   `json:"custom_data"`
	Identities    []string `json:"identities"`

	// Of both kinds of machines that are made by name.
	Sizes []Size   `json:"sizes"`
	Zones []string `json:"zones"`

	MaxSize        int     `json:"max_size"`
	CallsPerSecond float64 `json:"calls_per_second"`
	Cloud          string  `json:"cloud"`
	Endpoint       string  `json:"endpoint"`
	AuthorityHost  string  `json:"authority_host"`
}

// Size is a shape that can be asked for. Prices are for one hour; 0: not known.
type Size struct {
	Name      string  `json:"name"`
	Spot      bool    `json:"spot"`
	Price     float64 `json:"price"`
	SpotPrice float64 `json:"spot_price"`
	Currency  string  `json:"currency"`
}

const (
	defaultMaxSize        = 1000
	defaultCallsPerSecond = 5
)

// check completes the options, and says what of them cannot be.
func (o *Options) check() error {
	o.MaxSize = cmp.Or(o.MaxSize, defaultMaxSize)
	o.CallsPerSecond = cmp.Or(o.CallsPerSecond, defaultCallsPerSecond)
	switch {
	case o.SubscriptionID == "" || o.ResourceGroup == "":
		return errors.New(`the options "subscription_id" and "resource_group_name" are not set: name those that machines belong to`)
	case o.ScaleSet != "" && (o.Location != "" || o.Image != "" || o.Subnet != ""):
		return fmt.Errorf(`the scale set %q has a location, an image and a subnet: remove "location", "image" and "subnet", or "name"`, o.ScaleSet)
	case o.ScaleSet == "" && (o.Location == "" || o.Image == "" || o.Subnet == "" || len(o.Sizes) == 0):
		return errors.New(`set the option "name", a scale set, or "location", "image", "subnet" and "sizes", of which virtual machines are made`)
	case o.CredentialsFile != "" && o.Credentials != "":
		return errors.New(`set either the option "credentials" or the option "credentials_file", not both`)
	}
	if o.ScaleSet != "" {
		for _, own := range []struct {
			name string
			set  bool
		}{
			{"security_group", o.SecurityGroup != ""}, {"public_ip", o.PublicIP}, {"disk_size_gb", o.DiskSize != 0}, {"disk_type", o.DiskType != ""}, {"identities", len(o.Identities) > 0},
		} {
			if own.set {
				return fmt.Errorf(`the option %q has no effect with "name": the model of the scale set %q says it; remove %[1]q`, own.name, o.ScaleSet)
			}
		}
	}
	o.DiskType = cmp.Or(o.DiskType, "StandardSSD_LRS")
	return nil
}

// clientOptions are those of all clients. Calls are repeated by the plugin, which knows which of them can be.
func (o *Options) clientOptions() policy.ClientOptions {
	where := map[string]cloud.Configuration{"": cloud.AzurePublic, "public": cloud.AzurePublic, "china": cloud.AzureChina, "government": cloud.AzureGovernment}[o.Cloud]
	if o.Endpoint != "" {
		where = cloud.Configuration{ActiveDirectoryAuthorityHost: o.AuthorityHost, Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: o.Endpoint, Audience: o.Endpoint},
		}}
	}
	return policy.ClientOptions{Cloud: where, Retry: policy.RetryOptions{MaxRetries: -1}, Telemetry: policy.TelemetryOptions{ApplicationID: "rung"}}
}

// principal is a file with the secret of a service principal, as "az ad sp create-for-rbac --json-auth" prints it.
type principal struct {
	Tenant string `json:"tenantId"`
	Client string `json:"clientId"`
	Secret string `json:"clientSecret"`
}

// credential is how the clients authenticate.
func (o *Options) credential() (azcore.TokenCredential, error) {
	with := o.clientOptions()
	own := o.Endpoint != "" // Microsoft's directory does not know the authority of a cloud of one's own
	switch o.Credentials {
	case "managed_identity":
		options := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: with}
		if o.ClientID != "" {
			options.ID = azidentity.ClientID(o.ClientID)
		}
		return azidentity.NewManagedIdentityCredential(options)
	case "environment":
		return azidentity.NewEnvironmentCredential(&azidentity.EnvironmentCredentialOptions{ClientOptions: with, DisableInstanceDiscovery: own})
	case "workload_identity":
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: with, ClientID: o.ClientID, DisableInstanceDiscovery: own})
	case "cli":
		return azidentity.NewAzureCLICredential(nil)
	}
	if o.CredentialsFile == "" {
		return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: with, DisableInstanceDiscovery: own})
	}
	text, err := os.ReadFile(o.CredentialsFile)
	var p principal
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && (p.Tenant == "" || p.Client == "" || p.Secret == "") {
		err = errors.New(`it lacks one of "tenantId", "clientId" and "clientSecret"`)
	}
	if err != nil {
		return nil, fmt.Errorf(`the file of the option "credentials_file": %w`, err)
	}
	return azidentity.NewClientSecretCredential(p.Tenant, p.Client, p.Secret, &azidentity.ClientSecretCredentialOptions{ClientOptions: with, DisableInstanceDiscovery: own})
}
