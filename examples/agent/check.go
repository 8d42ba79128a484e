// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/kube"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

// clients has the clients of a shared etcd and of the Kubernetes API; nil for one that is not
// configured.
type clients struct {
	etcd       *etcd.Client
	kubernetes *kube.Clients
}

// close closes the clients.
func (c clients) close() error {
	if c.etcd == nil {
		return nil
	}
	return c.etcd.Close()
}

// checkSettings returns the effective settings of an agent, and its clients, which do not connect
// yet. The commands 'run' and 'config --check' both use it, so that they accept the same settings.
//
// Errors: a join of all problems of the settings, and of the files and interfaces that they name.
func checkSettings(layers []settings.Layer) (*settings.Effective, clients, error) {
	effective, err := settings.ResolvePartial(layers...)
	opened, other := openSources(effective.Settings)
	err = errors.Join(err, other, checkDirectory("endpoint-dir", effective.EndpointDir), checkSocket(effective.Socket))
	if err == nil {
		return effective, opened, nil
	}
	return nil, clients{}, errors.Join(err, opened.close())
}

// openSources checks that at least one source is configured, and returns the clients for the
// settings.
func openSources(s settings.Settings) (opened clients, err error) {
	if s.Etcd == "" && s.Manifests == "" && s.Resources == "" && !s.ReadsKubernetes() {
		// Registered endpoints are not enough as a source. The user may have forgotten the setting
		// of another source. Then all objects of that source would be removed from the kernel.
		return opened, cli.Usagef("--manifests is required, or --resources, or --etcd for run; the folder may be " +
			"empty if all endpoints are registered; in a Kubernetes cluster: --kubeconfig or --in-cluster")
	}
	err = errors.Join(checkDirectory("--manifests", s.Manifests), checkDirectory("--resources", s.Resources))
	var failed error
	opened.kubernetes, failed = kube.Connect(s)
	err = errors.Join(err, failed)
	if s.Etcd != "" {
		opened.etcd, failed = etcdClient(s)
		err = errors.Join(err, failed)
	}
	if err != nil {
		return clients{}, errors.Join(err, opened.close())
	}
	return opened, nil
}

// checkDirectory returns an error if the path exists and is not a directory. A path that does not
// exist is accepted: the directory may be created later.
func checkDirectory(name, path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w: give another directory", name, err)
	case !info.IsDir():
		return fmt.Errorf("%s: %s is not a directory: give a directory", name, path)
	}
	return nil
}

// checkSocket returns an error if another kind of file exists at the path, or if the path cannot be
// examined. For example, a part of the path may not be a directory. An existing socket is accepted,
// because it may be that of an earlier agent.
func checkSocket(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket: %w: set another --socket", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("socket: %s exists but is not a socket: remove it, or set another --socket", path)
	}
	return nil
}

// missing returns a line for each directory of the settings that 'run' will wait for.
func missing(s settings.Settings) (lines []string) {
	for _, dir := range []struct{ key, path string }{{"manifests", s.Manifests}, {"resources", s.Resources}} {
		if _, err := os.Stat(dir.path); dir.path != "" && errors.Is(err, fs.ErrNotExist) {
			lines = append(lines, fmt.Sprintf("warning: %s: %s does not exist: the agent will wait for it, and "+
				"program nothing until then", dir.key, dir.path))
		}
	}
	return lines
}
