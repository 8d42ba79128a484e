// SPDX-License-Identifier: Apache-2.0

package policy

func (d *decoder) endpointPort(p *EndpointPort) reader {
	return d.struc(memberReaders{
		"name":     text(d, &p.Name),
		"protocol": d.protocol(&p.Protocol),
		"port":     d.portNumber(&p.Port),
	})
}

func (d *decoder) problem(p *Problem) reader {
	return d.struc(memberReaders{
		"field": text(d, &p.Field),
		"msg":   text(d, &p.Msg),
	})
}

func (d *decoder) hostConfig(h *HostConfig) reader {
	return d.struc(memberReaders{
		"endpointToHostAction":    text(d, &h.EndpointToHostAction),
		"hostToEndpointAction":    text(d, &h.HostToEndpointAction),
		"failsafeInbound":         d.failsafes(&h.FailsafeInbound),
		"failsafeOutbound":        d.failsafes(&h.FailsafeOutbound),
		"allowVXLANFromWorkloads": d.boolean(&h.AllowVXLANFromWorkloads),
		"allowIPIPFromWorkloads":  d.boolean(&h.AllowIPIPFromWorkloads),
		"vxlanPort":               d.portNumber(&h.VXLANPort),
		"keepInvalid":             d.boolean(&h.KeepInvalid),
	})
}

// failsafes reads a list that is not nil when it is given without entries: those are no failsafe
// ports, not the default.
func (d *decoder) failsafes(to *[]Failsafe) reader {
	return func(path string, n *jsonNode) {
		*to = []Failsafe{}
		list(d, to, (*decoder).failsafe)(path, n)
	}
}

func (d *decoder) failsafe(f *Failsafe) reader {
	return d.struc(memberReaders{
		"protocol": d.protocol(&f.Protocol),
		"port":     d.portNumber(&f.Port),
		"net":      d.net(&f.Net),
	})
}
