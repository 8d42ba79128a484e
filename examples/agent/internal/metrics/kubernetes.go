// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wayleave/wayleave/datastore/kubernetes"
)

// apiDescs has the descriptions of the metrics of the Kubernetes API.
type apiDescs struct{ objects, readable, faulty *prometheus.Desc }

func newAPIDescs() apiDescs {
	return apiDescs{
		objects: describe("kubernetes_objects", "Objects of the Kubernetes API.", "kind"),
		readable: describe("kubernetes_readable",
			"1 if the kind can be read from the Kubernetes API, or if the server does not have it.", "kind"),
		faulty: describe("kubernetes_faulty_objects", "Objects of the Kubernetes API that are not understood."),
	}
}

func (a apiDescs) describe(out chan<- *prometheus.Desc) {
	out <- a.objects
	out <- a.readable
	out <- a.faulty
}

func (a apiDescs) collect(s *kubernetes.Status, out chan<- prometheus.Metric) {
	if s == nil {
		return
	}
	for _, k := range s.Kinds {
		if k.State == kubernetes.StateOmitted {
			continue
		}
		readable := k.Err == nil && k.State != kubernetes.StateWaiting
		out <- prometheus.MustNewConstMetric(a.objects, prometheus.GaugeValue, float64(k.Objects), k.Kind)
		out <- prometheus.MustNewConstMetric(a.readable, prometheus.GaugeValue, truth(readable), k.Kind)
	}
	out <- prometheus.MustNewConstMetric(a.faulty, prometheus.GaugeValue, float64(s.Faulty))
}
