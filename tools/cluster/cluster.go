// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
)

// controlName is the machine of the control plane.
const controlName = "control"

// The addresses of a cluster. They exist in its namespaces only.
const (
	podCIDRs     = "10.244.0.0/16,fd00:10:244::/56"
	serviceCIDRs = "10.96.0.0/16,fd00:10:96::/112"
	dnsAddress   = "10.96.0.10"
	dnsDomain    = "cluster.local"
	apiAddress   = "172.30.0.1"
	apiAddress6  = "fd00:30::1"
	apiServer    = "https://" + apiAddress + ":6443"
)

// options are those of the command up. They are saved, so that other commands know them.
type options struct {
	Nodes  int
	Proxy  string // mode of kube-proxy
	Routes string // between nodes, one of these
}

// Routes between nodes.
const (
	routesDirect = "direct"
	routesVXLAN  = "vxlan"
)

// cluster has the files of a cluster, which may run or not.
type cluster struct {
	repository string // absolute
	options
}

// openCluster returns the cluster of a repository, with the options that it was started with, if
// it was.
func openCluster(repository string) (*cluster, error) {
	repository, err := filepath.Abs(repository)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(repository, "tools/cluster/go.mod")); err != nil {
		return nil, fmt.Errorf("%s is not the folder of the repository: name it with -C", repository)
	}
	c := &cluster{repository: repository}
	saved, err := os.ReadFile(c.state("options.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(saved, &c.options); err != nil {
		return nil, fmt.Errorf("read %s: %w", c.state("options.json"), err)
	}
	return c, nil
}

func (c *cluster) saveOptions() error {
	encoded, err := json.Marshal(c.options)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.state(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(c.state("options.json"), encoded, 0o644)
}

// bin returns the path of a built or downloaded file.
func (c *cluster) bin(elements ...string) string {
	return filepath.Join(append([]string{c.repository, "bin"}, elements...)...)
}

// state returns the path of a file that the command down removes.
func (c *cluster) state(elements ...string) string {
	return c.bin(append([]string{"cluster-state"}, elements...)...)
}

func (c *cluster) logs(elements ...string) string {
	return c.bin(append([]string{"cluster-logs"}, elements...)...)
}

// path is the PATH of the cluster's programs.
func (c *cluster) path() string {
	return strings.Join([]string{
		c.bin("kubernetes"), c.bin("containerd/usr/bin"), c.bin("containerd/usr/sbin"),
		os.Getenv("PATH"), "/usr/sbin", "/sbin",
	}, ":")
}

// clientEnvironment is the environment of clients of the API server.
func (c *cluster) clientEnvironment() []string {
	return append(os.Environ(), "KUBECONFIG="+c.kubeconfig("admin"), "PATH="+c.path())
}

// nodes returns the names of the nodes.
func (c *cluster) nodes() []string {
	names := make([]string, c.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node%d", i+1)
	}
	return names
}

func (c *cluster) machine(name string) machine.Config {
	return machine.Config{
		Name: name, Dir: c.state(name), Logs: c.logs(name), Cgroup: c.cgroup() + "/" + name,
	}
}

// cgroup returns the control group of all machines. Clusters of several copies of the repository
// can run at once, and each has its own.
func (c *cluster) cgroup() string {
	hash := fnv.New32a()
	hash.Write([]byte(c.repository))
	return fmt.Sprintf("wayleave-cluster-%08x", hash.Sum32())
}

// nodeAddresses returns the addresses of node i, from 0.
func nodeAddresses(i int) (netip.Addr, netip.Addr) {
	return netip.AddrFrom4([4]byte{172, 30, 0, byte(11 + i)}),
		netip.MustParseAddr(fmt.Sprintf("fd00:30::%x", 0x11+i))
}

// down ends the processes of a cluster and removes its state.
func (c *cluster) down() error {
	// The folders name the machines, so that a cluster that was started by half is ended, too.
	entries, err := os.ReadDir(c.state())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	slices.Reverse(entries) // nodes before the control plane
	var problems []error
	for _, entry := range entries {
		if !entry.IsDir() || (entry.Name() != controlName && !strings.HasPrefix(entry.Name(), "node")) {
			continue
		}
		config := c.machine(entry.Name())
		m, err := machine.Open(config)
		if err != nil {
			m = &machine.Machine{Config: config}
		}
		problems = append(problems, m.Remove())
	}
	problems = append(problems, machine.RemoveCgroup(c.cgroup()), newHostSysctls().restore(c.state()))
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return os.RemoveAll(c.state())
}
