// SPDX-License-Identifier: Apache-2.0

package prove_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft/prove"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// A program proves a table, and proves it again after an endpoint got another label.
func ExampleTable() {
	web := &policy.WorkloadEndpoint{
		Name: "web", Node: "n1", Interface: "way1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Labels: map[string]string{"app": "web"},
	}
	front := &policy.WorkloadEndpoint{
		Name: "front", Node: "n2", Interface: "way1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.1.1")},
		Labels: map[string]string{"app": "front"},
	}
	world := verdict.World{}
	world.Set(web, front, &policy.Policy{
		Name: "web", Selector: "app == 'web'", Ingress: []policy.Rule{{
			Action: policy.Allow, Source: policy.EntityRule{Selector: "app == 'front'"},
		}},
	})
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for key, r := range world {
		graph.Update(policy.Update{Key: key, Resource: r})
	}
	graph.InSync()
	renderer, err := render.New(render.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	renderer.Update(graph.Flush())
	table, _ := renderer.Table() // nothing is at fault

	for _, app := range []string{"front", "back"} {
		changed := *front
		changed.Labels = map[string]string{"app": app}
		world.Set(&changed)
		report, err := prove.Table(context.Background(), prove.Config{World: world, Node: "n1", Table: table})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(app, "agrees:", report.Agrees())
		for _, d := range report.Differences[:min(1, len(report.Differences))] {
			fmt.Println(d.Flow)
		}
	}
	// Output:
	// front agrees: true
	// back agrees: false
	// TCP 10.0.1.1:40000 -> 10.0.0.1:40000 (node n1, in by eth0, out by way1)
}
