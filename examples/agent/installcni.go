// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wayleave/wayleave/examples/agent/internal/cniinstall"
	"github.com/wayleave/wayleave/examples/agent/internal/kube"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

func installCNICommand() cli.Command {
	return cli.Command{
		Name:    "install-cni",
		Summary: "install the CNI plugin and its network configuration on this node",
		About: `Copies the plugin to BIN-DIR/wayleave, and then the network configuration to
CONF-DIR/10-wayleave.conflist. It replaces each file atomically, so the container runtime never reads half a
file. A file with the same content stays. Neither this command nor the agent removes these files: pods keep
their network while the agent does not run.

If the configuration contains "ranges": "POD_CIDRS", the command replaces the text "POD_CIDRS" by the pod
CIDRs of this node, in the form that the plugin host-local expects. It reads the pod CIDRs from the Kubernetes
API, so it needs --in-cluster or --kubeconfig. These settings can also be in the environment or in the file of
--config.`,
		Examples: []string{
			"install-cni --plugin ./wayleave-cni --conflist ./10-wayleave.conflist",
			"install-cni --in-cluster --node n1 --plugin /cni --conflist /etc/wayleave/cni.conflist",
		},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			declared := settings.Defaults()
			settings.DeclareKubernetes(flags, &declared)
			flags.StringVar(&declared.Node, "node", declared.Node, "`NAME` of this node")
			config := configFlag(flags)
			var install cniinstall.Config
			flags.StringVar(&install.Plugin, "plugin", "", "`FILE` of the plugin; required")
			conflist := flags.String("conflist", "", "`FILE` of the network configuration; required")
			flags.StringVar(&install.BinDir, "bin-dir", "/opt/cni/bin", "`DIR` of the runtime's plugins")
			flags.StringVar(&install.ConfDir, "conf-dir", "/etc/cni/net.d",
				"`DIR` of the runtime's network configurations")
			return func(ctx context.Context, c cli.Console, _ []string) (err error) {
				if install.Plugin == "" || *conflist == "" {
					return cli.Usagef("install-cni: --plugin and --conflist are required")
				}
				if install.Conflist, err = os.ReadFile(*conflist); err != nil {
					return fmt.Errorf("install-cni: --conflist: %w: give the file of the network configuration", err)
				}
				if cniinstall.NeedsPodCIDRs(install.Conflist) {
					below, above := layers(flags, *config)
					effective, err := settings.ResolveKeys(slices.Concat(below, above), "node", "kubeconfig",
						"kubernetes-context", "in-cluster")
					if err != nil {
						return err
					}
					if install.Conflist, err = withPodCIDRs(ctx, c, effective.Settings, install.Conflist); err != nil {
						return err
					}
				}
				if err := cniinstall.Install(install); err != nil {
					return err
				}
				c.Printf("installed %s/%s and %s/%s\n", install.BinDir, cniinstall.Name, install.ConfDir,
					cniinstall.ConflistName)
				return nil
			}
		},
	}
}

func uninstallCNICommand() cli.Command {
	return cli.Command{
		Name:    "uninstall-cni",
		Summary: "remove the network configuration that install-cni installed",
		About: `Removes CONF-DIR/10-wayleave.conflist. Then the container runtime uses the plugin for no new
pod. The plugin stays, because the runtime also calls it when a pod ends.`,
		Examples: []string{"uninstall-cni", "uninstall-cni --conf-dir /host/etc/cni/net.d"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			dir := flags.String("conf-dir", "/etc/cni/net.d",
				"`DIR` of the runtime's network configurations")
			return func(_ context.Context, c cli.Console, _ []string) error {
				if err := cniinstall.Remove(*dir); err != nil {
					return err
				}
				c.Printf("there is no %s/%s\n", *dir, cniinstall.ConflistName)
				return nil
			}
		},
	}
}

// withPodCIDRs returns the network configuration with the pod CIDRs of this node, which it reads
// from the API.
func withPodCIDRs(ctx context.Context, c cli.Console, s settings.Settings, conflist []byte) ([]byte, error) {
	clients, err := kube.Connect(s)
	if err != nil {
		return nil, err
	}
	if clients == nil {
		return nil, cli.Usagef("install-cni: the configuration has %s: --in-cluster or --kubeconfig is required",
			cniinstall.PodCIDRs)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // after a failure, kubelet restarts the container
	defer cancel()
	progress := cli.NewProgress(c, "waiting for the Kubernetes API")
	node, err := clients.Client.CoreV1().Nodes().Get(ctx, s.Node, metav1.GetOptions{})
	progress.End()
	if err != nil {
		return nil, fmt.Errorf("install-cni: read node %s: %w", s.Node, err)
	}
	return cniinstall.WithPodCIDRs(conflist, s.Node, node.Spec.PodCIDRs)
}
