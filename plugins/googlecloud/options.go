package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"google.golang.org/api/option"
)

// Options are those of the configuration. schema.json says what they mean to people.
type Options struct {
	Project         string `json:"project"`
	CredentialsFile string `json:"credentials_file"`

	// Of a managed instance group.
	Name   string `json:"name"`
	Zone   string `json:"zone"`
	Region string `json:"region"`

	// Of single instances.
	InstanceTemplate string        `json:"instance_template"`
	Zones            []string      `json:"zones"`
	MachineTypes     []MachineType `json:"machine_types"`

	// Of volumes.
	VolumeType   string `json:"volume_type"`
	VolumeKMSKey string `json:"volume_kms_key"`

	MaxSize         int     `json:"max_size"`
	OSLogin         bool    `json:"os_login"`
	OSLoginUser     string  `json:"os_login_user"`
	RequireHostKeys bool    `json:"require_host_keys"`
	CallsPerSecond  float64 `json:"calls_per_second"`
	Endpoint        string  `json:"endpoint"`
	OSLoginEndpoint string  `json:"os_login_endpoint"`
}

// MachineType is a shape that can be asked for. Prices are for one hour; 0: not known.
type MachineType struct {
	Name           string  `json:"name"`
	Spot           bool    `json:"spot"`
	Price          float64 `json:"price"`
	SpotPrice      float64 `json:"spot_price"`
	SuspendedPrice float64 `json:"suspended_price"` // of its memory and disks
	Currency       string  `json:"currency"`
}

// templateName is how a template is named: one of the project, or of a region of it.
var templateName = regexp.MustCompile(`^(regions/[-a-z0-9]+/instanceTemplates/)?[a-z][-a-z0-9]*$`)

// kmsKey is how a key of Cloud KMS is named, with or without a version.
var kmsKey = regexp.MustCompile(`^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+(/cryptoKeyVersions/[0-9]+)?$`)

const (
	defaultVolumeType     = "pd-balanced"
	defaultMaxSize        = 1000
	defaultCallsPerSecond = 10
)

//go:embed schema.json
var schema string

// OptionsSchema implements instancegroup.Schemer.
func (c *cloud) OptionsSchema() string { return schema }

// check completes the options, and says what of them cannot be.
func (o *Options) check() error {
	if o.MaxSize == 0 {
		o.MaxSize = defaultMaxSize
	}
	if o.CallsPerSecond == 0 {
		o.CallsPerSecond = defaultCallsPerSecond
	}
	if o.VolumeKMSKey != "" && !kmsKey.MatchString(o.VolumeKMSKey) {
		return fmt.Errorf(`the option "volume_kms_key" must be projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY, not %q`, o.VolumeKMSKey)
	}
	if o.Region != "" && (o.VolumeType != "" || o.VolumeKMSKey != "") {
		return errors.New(`the managed instance group of a region has no volumes: remove "volume_type" and "volume_kms_key", or use the group of a zone`)
	}
	group := o.Name != ""
	switch {
	case o.Project == "":
		return errors.New(`the option "project" is not set: name the project that machines belong to`)
	case group == (o.InstanceTemplate != ""):
		return errors.New(`set either the option "name", a managed instance group, or "instance_template", from which single instances are made`)
	case !group && !templateName.MatchString(o.InstanceTemplate):
		return fmt.Errorf(`the option "instance_template" must be NAME, or regions/REGION/instanceTemplates/NAME, not %q`, o.InstanceTemplate)
	case group && (o.Zone == "") == (o.Region == ""):
		return fmt.Errorf(`the managed instance group %q needs either the option "zone" or the option "region"`, o.Name)
	case group && (len(o.Zones) > 0 || len(o.MachineTypes) > 0):
		return fmt.Errorf(`the zones and the machine type of the managed instance group %q are its own: remove "zones" and "machine_types", or use "instance_template" in place of "name"`, o.Name)
	case !group && o.Region != "":
		return errors.New(`single instances are made in zones: use the option "zones" in place of "region"`)
	case !group && o.Zone != "" && len(o.Zones) > 0:
		return errors.New(`set either the option "zone" or the option "zones", not both`)
	case !group && o.Zone == "" && len(o.Zones) == 0:
		return errors.New(`the option "zones" lists no zones in which instances are made`)
	}
	if !group && o.Zone != "" {
		o.Zones = []string{o.Zone}
	}
	return nil
}

// credentials are how the API's client authenticates: with the file, or with what the machine has (Application Default Credentials).
func (o *Options) credentials() ([]option.ClientOption, error) {
	if o.CredentialsFile == "" {
		return nil, nil
	}
	file, err := o.credentialsFile()
	if err != nil {
		return nil, err
	}
	switch kind := option.CredentialsType(file.Type); kind {
	case option.ServiceAccount, option.AuthorizedUser, option.ImpersonatedServiceAccount, option.ExternalAccount:
		return []option.ClientOption{option.WithAuthCredentialsFile(kind, o.CredentialsFile)}, nil
	}
	return nil, fmt.Errorf("the credentials in %s are of the type %q, which must be service_account, authorized_user, impersonated_service_account or external_account", o.CredentialsFile, file.Type)
}

// credentialsFile is what a file with credentials says of itself.
func (o *Options) credentialsFile() (file struct {
	Type        string `json:"type"`
	ClientEmail string `json:"client_email"`
}, err error) {
	text, err := os.ReadFile(o.CredentialsFile)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		err = fmt.Errorf(`the file of the option "credentials_file": %w`, err)
	}
	return file, err
}

// short is the last part of a URL or a partial URL.
func short(url string) string { return url[strings.LastIndex(url, "/")+1:] }
