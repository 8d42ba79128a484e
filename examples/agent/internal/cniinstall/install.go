// SPDX-License-Identifier: Apache-2.0

package cniinstall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
)

// Name is the name of the installed plugin. The "type" of a plugin in the network configuration is
// this name.
const Name = "wayleave"

// ConflistName is the file name of the installed configuration. If a folder has several
// configurations, a container runtime uses the one whose name sorts first.
const ConflistName = "10-wayleave.conflist"

// unfinished is the beginning of the names of files that are being written. A runtime ignores them,
// because their extension is a number.
const unfinished = ".wayleave-install-"

// PodCIDRs is a placeholder in a configuration. WithPodCIDRs replaces it, with its quotes.
const PodCIDRs = `"POD_CIDRS"`

// Config configures an installation. All fields are required.
type Config struct {
	// Plugin is the path of the plugin's binary.
	Plugin string
	// Conflist is the network configuration: a list of plugins. At least one of them must have the
	// constant Name as its type.
	Conflist []byte
	// BinDir and ConfDir are the folders in which the runtime looks for plugins and configurations.
	// They are created if they do not exist.
	BinDir, ConfDir string
}

// Install installs the plugin, and then its configuration.
//
// Errors: those of the file system. If the configuration is not valid, Install returns an error and
// installs nothing.
func Install(cfg Config) error {
	if err := check(cfg.Conflist); err != nil {
		return err
	}
	plugin, err := os.ReadFile(cfg.Plugin)
	if err != nil {
		return fmt.Errorf("cniinstall: %w", err)
	}
	if err := put(cfg.BinDir, Name, plugin, 0o755); err != nil {
		return fmt.Errorf("cniinstall: %w", err)
	}
	if err := put(cfg.ConfDir, ConflistName, cfg.Conflist, 0o600); err != nil {
		return fmt.Errorf("cniinstall: %w", err)
	}
	return nil
}

// Remove removes the configuration, so that the container runtime no longer uses the plugin for new
// pods. It does not remove the plugin itself, because the runtime still calls it when a pod ends. A
// missing configuration is not an error.
//
// Errors: those of the file system.
func Remove(confDir string) error {
	if err := os.Remove(filepath.Join(confDir, ConflistName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cniinstall: %w", err)
	}
	return nil
}

// check returns why a configuration is not valid, or nil.
func check(conflist []byte) error {
	list, err := libcni.NetworkConfFromBytes(conflist)
	if err != nil {
		return fmt.Errorf("cniinstall: the network configuration is not valid: %w", err)
	}
	if !slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool { return p.Network.Type == Name }) {
		return fmt.Errorf("cniinstall: the network configuration has no plugin of type %q", Name)
	}
	return nil
}

// put writes a file atomically.
func put(dir, name string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	if isThere(path, data, mode) {
		return nil
	}
	removeUnfinished(dir)
	part, err := os.CreateTemp(dir, unfinished+"*")
	if err != nil {
		return err
	}
	_, err = part.Write(data)
	if err = errors.Join(err, part.Chmod(mode), part.Sync(), part.Close()); err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// isThere reports whether a file exists with the given content.
func isThere(path string, data []byte, mode fs.FileMode) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != mode {
		return false
	}
	now, err := os.ReadFile(path)
	return err == nil && bytes.Equal(now, data)
}

// removeUnfinished removes unfinished files of an earlier run that was killed.
func removeUnfinished(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, unfinished+"*")) // the pattern is valid
	for _, path := range old {
		_ = os.Remove(path) // a file that stays does no harm
	}
}

// NeedsPodCIDRs reports whether a configuration contains the placeholder "POD_CIDRS".
func NeedsPodCIDRs(conflist []byte) bool { return bytes.Contains(conflist, []byte(PodCIDRs)) }

// WithPodCIDRs returns the configuration with the pod CIDRs of a node instead of the placeholder
// "POD_CIDRS". It writes the pod CIDRs in the form of the field "ranges" of the plugin host-local.
//
// Errors: the node has no pod CIDR, or a pod CIDR is not valid.
func WithPodCIDRs(conflist []byte, node string, cidrs []string) ([]byte, error) {
	if len(cidrs) == 0 {
		return nil, fmt.Errorf("cniinstall: node %s has no pod CIDR (spec.podCIDRs): does the controller manager "+
			"allocate them (--allocate-node-cidrs)?", node)
	}
	type subnet struct {
		Subnet netip.Prefix `json:"subnet"`
	}
	var ranges [][]subnet
	for _, text := range cidrs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("cniinstall: node %s: spec.podCIDRs: %w", node, err)
		}
		ranges = append(ranges, []subnet{{prefix.Masked()}})
	}
	text, err := json.Marshal(ranges)
	if err != nil {
		return nil, err
	}
	return []byte(strings.ReplaceAll(string(conflist), PodCIDRs, string(text))), nil
}
