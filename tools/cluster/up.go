// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
	"github.com/wayleave/wayleave/tools/cluster/internal/pki"
)

func runUp(ctx context.Context, c *cluster, args []string) error {
	running := c.Nodes > 0
	flags := flag.NewFlagSet("cluster up", flag.ContinueOnError)
	flags.IntVar(&c.Nodes, "nodes", 3, "`number` of nodes, 1 to 9")
	flags.StringVar(&c.Proxy, "proxy", "nftables", "`mode` of kube-proxy: nftables or iptables")
	flags.StringVar(&c.Routes, "routes", routesDirect, "`mode` of routes between nodes: direct or vxlan")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "usage: cluster up [FLAGS]\n\n"+
			"Start a cluster and install Wayleave on it. 'make cluster' builds the programs before.\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case running:
		return errors.New("a cluster runs or left state behind: run 'cluster down' first")
	case flags.NArg() > 0:
		return fmt.Errorf("up: unexpected argument %q", flags.Arg(0))
	case c.Nodes < 1 || c.Nodes > 9:
		return fmt.Errorf("up: --nodes %d is not between 1 and 9", c.Nodes)
	case c.Proxy != "nftables" && c.Proxy != "iptables":
		return fmt.Errorf("up: --proxy %q is neither nftables nor iptables", c.Proxy)
	case c.Routes != routesDirect && c.Routes != routesVXLAN:
		return fmt.Errorf("up: --routes %q is neither direct nor vxlan", c.Routes)
	}
	if err := c.up(ctx); err != nil {
		if down := c.down(); down != nil {
			err = fmt.Errorf("%w; ending the cluster: %w", err, down)
		}
		return fmt.Errorf("up: %w; logs are in %s", err, c.logs())
	}
	fmt.Println("\nThe cluster runs. 'make cluster-shell' starts a shell with kubectl, 'make cluster-down' ends it.")
	fmt.Println("Logs:", c.logs())
	return nil
}

// step runs a function, and prints its name and how long it took.
func step(name string, run func() error) error {
	start := time.Now()
	fmt.Printf("%-48s", name)
	if err := run(); err != nil {
		fmt.Println(" failed")
		return fmt.Errorf("%s: %w", strings.ToLower(name), err)
	}
	fmt.Printf(" %5.1f s\n", time.Since(start).Seconds())
	return nil
}

func (c *cluster) up(ctx context.Context) error {
	if err := c.saveOptions(); err != nil {
		return err
	}
	if err := newHostSysctls().save(c.state()); err != nil {
		return err
	}
	if err := os.RemoveAll(c.logs()); err != nil {
		return err
	}
	var archives []string
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"Images", func() (err error) {
			archives, err = c.writeImages()
			return err
		}},
		{"Control plane", func() error { return c.startControl(ctx) }},
		{fmt.Sprintf("Machines of %d nodes", c.Nodes), func() error { return c.startNodes(ctx) }},
		{"Images on all nodes", func() error { return c.importImages(ctx, archives) }},
		{"Wayleave", func() error { return c.installWayleave(ctx) }},
		{"Nodes are ready", func() error {
			return c.kubectl(ctx, "wait", "--for=condition=Ready", "node", "--all", "--timeout=90s")
		}},
		{"Routes of the control plane", func() error { return c.routePods(ctx) }},
		{"DNS", func() error {
			return c.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=90s")
		}},
	} {
		if err := step(s.name, s.run); err != nil {
			return err
		}
	}
	return nil
}

// startControl starts the control plane and waits until the API server is ready.
func (c *cluster) startControl(ctx context.Context) error {
	addresses := []netip.Addr{
		netip.MustParseAddr(apiAddress), netip.MustParseAddr(apiAddress6), netip.MustParseAddr("127.0.0.1"),
		netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00:10:96::1"),
	}
	names := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + dnsDomain,
		"localhost",
	}
	if err := pki.Write(c.state("pki"), names, addresses); err != nil {
		return err
	}
	if err := c.writeProgramFiles(); err != nil {
		return err
	}
	control, err := machine.Start(ctx, c.machine(controlName))
	if err != nil {
		return err
	}
	if err := addBridge(ctx, control); err != nil {
		return err
	}
	if err := control.Run(c.programs(controlName)); err != nil {
		return err
	}
	return c.waitFor(ctx, time.Minute, "get", "--raw=/readyz")
}

// addBridge makes the bridge of the machine of the control plane. All machines are its ports.
// kube-apiserver requires a default route. Its gateway does not exist, so no packet leaves the
// cluster.
func addBridge(ctx context.Context, control *machine.Machine) error {
	return ipCommands(ctx, control,
		"link set lo up",
		"link add cluster0 type bridge",
		"link set cluster0 up",
		"addr add "+apiAddress+"/24 dev cluster0",
		"addr add "+apiAddress6+"/64 dev cluster0 nodad",
		"route add default via 172.30.0.254 dev cluster0",
	)
}

// routePods makes routes from the control plane to the pods of all nodes. The API server connects
// to pods for its clients. In most clusters it runs on a node, which has these routes.
func (c *cluster) routePods(ctx context.Context) error {
	control, err := machine.Open(c.machine(controlName))
	if err != nil {
		return err
	}
	for i, name := range c.nodes() {
		printed, err := c.kubectlCommand(ctx, "get", "node", name, "-o", "jsonpath={.spec.podCIDRs[*]}").Output()
		if err != nil {
			return fmt.Errorf("pod CIDRs of %s: %w", name, err)
		}
		address, address6 := nodeAddresses(i)
		for cidr := range strings.FieldsSeq(string(printed)) {
			gateway := address
			if strings.Contains(cidr, ":") {
				gateway = address6
			}
			if err := ipCommands(ctx, control, fmt.Sprintf("route replace %s via %s", cidr, gateway)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cluster) startNodes(ctx context.Context) error {
	return c.eachNode(func(i int, _ string) error { return c.startNode(ctx, i) })
}

// startNode starts the machine of node i, from 0, and its programs. The files of an earlier
// machine of the node are used again. A machine that was started but has no programs yet is
// replaced: the program that started it ended too early. If startNode fails, no machine is left.
func (c *cluster) startNode(ctx context.Context, i int) error {
	name := c.nodes()[i]
	control, err := machine.Open(c.machine(controlName))
	if err != nil {
		return err
	}
	if old, err := machine.Open(c.machine(name)); err == nil {
		if old.Configured() {
			return fmt.Errorf("node %s runs already", name)
		}
		if err := old.Kill(); err != nil {
			return err
		}
	}
	if err := c.installCNIPlugins(name); err != nil {
		return err
	}
	node, err := machine.Start(ctx, c.machine(name))
	if err != nil {
		return err
	}
	err = c.connectNode(ctx, control, node, i)
	if err == nil {
		err = node.Run(c.programs(name))
	}
	if err != nil {
		return errors.Join(err, node.Kill())
	}
	return nil
}

// connectNode sets up the network of the machine of node i.
func (c *cluster) connectNode(ctx context.Context, control, node *machine.Machine, i int) error {
	// The kernel removes the links of an earlier machine some time after its end.
	_ = ipCommands(ctx, control, "link del "+node.Name)
	err := ipCommands(ctx, control, fmt.Sprintf("link add %s type veth peer name eth0 netns %d", node.Name, node.PID()),
		"link set "+node.Name+" master cluster0 up")
	if err != nil {
		return err
	}
	address, address6 := nodeAddresses(i)
	err = ipCommands(ctx, node,
		"link set lo up",
		"link set eth0 up",
		fmt.Sprintf("addr add %s/24 dev eth0", address),
		fmt.Sprintf("addr add %s/64 dev eth0 nodad", address6),
		"route add default via "+apiAddress,
		"route add default via "+apiAddress6,
	)
	if err != nil {
		return err
	}
	// Every guide to a Kubernetes node sets these.
	for _, sysctl := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		cmd := node.Command(ctx, "sh", "-c", "echo 1 >/proc/sys/"+sysctl)
		if err := output(cmd); err != nil {
			return err
		}
	}
	return nil
}

// installCNIPlugins copies the reference plugins that a node must have.
func (c *cluster) installCNIPlugins(node string) error {
	folder := filepath.Join(c.machine(node).Dir, "opt/cni/bin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, plugin := range []string{"host-local", "loopback", "portmap"} {
		content, err := os.ReadFile(c.bin("cluster-programs", plugin))
		if err != nil {
			return err
		}
		// A plugin that runs cannot be written, but replaced.
		file := filepath.Join(folder, plugin)
		if err := os.WriteFile(file+".new", content, 0o755); err != nil {
			return err
		}
		if err := os.Rename(file+".new", file); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) importImages(ctx context.Context, archives []string) error {
	return c.eachNode(func(_ int, name string) error {
		node, err := machine.Open(c.machine(name))
		if err != nil {
			return err
		}
		for _, archive := range archives {
			var problem error
			// containerd needs some time to start.
			for range 60 {
				cmd := node.Command(ctx, "ctr", "--namespace", "k8s.io", "images", "import", archive)
				cmd.Env = append(os.Environ(), "PATH="+c.path())
				if problem = output(cmd); problem == nil || ctx.Err() != nil {
					break
				}
				time.Sleep(500 * time.Millisecond)
			}
			if problem != nil {
				return fmt.Errorf("node %s: %w", name, problem)
			}
		}
		return nil
	})
}

// eachNode calls a function for all nodes at once.
func (c *cluster) eachNode(run func(i int, name string) error) error {
	errs := make([]error, c.Nodes)
	var group sync.WaitGroup
	for i, name := range c.nodes() {
		group.Go(func() { errs[i] = run(i, name) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// kubectl runs kubectl as the administrator. Its output is part of the error.
func (c *cluster) kubectl(ctx context.Context, args ...string) error {
	return output(c.kubectlCommand(ctx, args...))
}

func (c *cluster) kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	control := &machine.Machine{Config: c.machine(controlName)}
	if opened, err := machine.Open(control.Config); err == nil {
		control = opened
	}
	cmd := control.NetCommand(ctx, append([]string{c.bin("kubernetes/kubectl")}, args...)...)
	cmd.Env = c.clientEnvironment()
	return cmd
}

// waitFor runs kubectl until it succeeds.
func (c *cluster) waitFor(ctx context.Context, limit time.Duration, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := c.kubectl(ctx, args...)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ipCommands runs commands of ip(8) in the network namespace of a machine.
func ipCommands(ctx context.Context, m *machine.Machine, commands ...string) error {
	cmd := m.NetCommand(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	return output(cmd)
}

// output runs a command. If it fails, the error is its output.
func output(cmd *exec.Cmd) error {
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(printed.String()))
	}
	return nil
}
