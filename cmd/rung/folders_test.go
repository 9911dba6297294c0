package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	groupplugin "github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/sdk/instancegroup"
)

// foldersPlugin is the file of the instance-group plugin that these tests are when they are called so.
const foldersPlugin = groupplugin.Prefix + "folders"

// folders is a group whose machines are one host behind SSH. Each has a folder of its own there, in which its volumes are.
type folders struct {
	*fake.Group `json:"-"`

	Address string `json:"address"`
	Root    string `json:"root"`
}

func serveFolders() { instancegroup.Serve(&folders{Group: fake.New(fake.Options{Size: 2})}) }

// foldersIn lets scripts have the plugin in $WORK/plugins.
func foldersIn(env *testscript.Env) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir := filepath.Join(env.WorkDir, "plugins")
	return errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(self, filepath.Join(dir, foldersPlugin)))
}

// OptionsSchema implements instancegroup.Schemer.
func (f *folders) OptionsSchema() string {
	return `{"type": "object", "additionalProperties": false, "properties": {"address": {"type": "string"}, "root": {"type": "string"}}}`
}

// ConnectInfo implements group.Basic.
func (f *folders) ConnectInfo(ctx context.Context, instance string) (group.ConnectInfo, error) {
	info, err := f.Group.ConnectInfo(ctx, instance)
	info.InternalAddr, info.ExternalAddr = f.Address, f.Address
	return info, err
}

// home is where a volume is while no machine has it.
func (f *folders) home(volume string) string { return filepath.Join(f.Root, "home", volume) }

func (f *folders) CreateVolume(ctx context.Context, r group.VolumeRequest) (group.Volume, error) {
	v, err := f.Group.CreateVolume(ctx, r)
	if err == nil {
		err = os.MkdirAll(f.home(v.ID), 0o700)
	}
	return v, err
}

func (f *folders) AttachVolume(ctx context.Context, a group.Attachment) (string, error) {
	if _, err := f.Group.AttachVolume(ctx, a); err != nil {
		return "", err
	}
	folder := filepath.Join(f.Root, a.Instance, a.Volume)
	return folder, errors.Join(os.MkdirAll(filepath.Dir(folder), 0o700), moved(f.home(a.Volume), folder))
}

func (f *folders) DetachVolume(ctx context.Context, a group.Attachment) error {
	if err := f.Group.DetachVolume(ctx, a); err != nil {
		return err
	}
	return moved(filepath.Join(f.Root, a.Instance, a.Volume), f.home(a.Volume))
}

func (f *folders) DeleteVolume(ctx context.Context, volume string) error {
	if err := f.Group.DeleteVolume(ctx, volume); err != nil {
		return err
	}
	return os.RemoveAll(f.home(volume))
}

// moved moves a folder, unless a call before this one has.
func moved(from, to string) error {
	if err := os.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

var (
	_ instancegroup.Volumer = (*folders)(nil)
	_ instancegroup.Schemer = (*folders)(nil)
)
