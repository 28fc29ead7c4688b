//! Target 6: what else a client may speak, and what that costs.

use std::sync::Arc;

use anyhow::Result;

use super::{bench::Bench, http2, row::Row, throughput::batches};
use crate::access::{Keys, Protocol};
use crate::certificate::Certificate;
use crate::load::{Endpoint, Mode};
use crate::report::thousands;
use crate::server::{Server, Settings};
use crate::statistics::median;

/// Target 6: what else a client may speak, against unsigned JSON over HTTP/1.1 without TLS, and
/// signatures checked against the same ones unchecked. What is held against each other is measured
/// next to each other, and neither is always the first.
pub(crate) fn protocols(bench: &mut Bench) -> Result<()> {
    let plain = bench.server()?;
    let keys = Keys::new("bench", "bench");
    let signed = bench.server_with(|settings| Settings { keys: Some(keys.clone()), ..settings })?;
    let certificate = Some(Arc::new(Certificate::new()?));
    let encrypted = bench.server_with(|settings| Settings { certificate, ..settings })?;
    let usual = |bench: &mut Bench| pc(bench, &plain, plain.endpoint()?);
    let unchecked = |bench: &mut Bench| pc(bench, &plain, plain.endpoint_signing(&keys)?);
    let query = |bench: &mut Bench| pc(bench, &plain, plain.endpoint_in(Protocol::Query)?);
    let checked = |bench: &mut Bench| pc(bench, &signed, signed.endpoint()?);
    let https = |bench: &mut Bench| pc(bench, &encrypted, encrypted.endpoint()?);
    let http2 = |bench: &mut Bench| http2::through_in_tens(bench, &plain);
    let usual_of = |against: &'static str| (against, &usual as Measure<'_>);
    let mut others = [
        Other::new(("Query protocol", &query), usual_of("JSON"), Some(0.8)),
        // SDKs sign whether or not the server looks: what the target is about is the looking.
        Other::new(("SigV4, checked", &checked), ("signed and unchecked", &unchecked), Some(0.8)),
        Other::new(("SigV4, signed and checked", &checked), usual_of("unsigned"), None),
        Other::new(("HTTPS, kept connections", &https), usual_of("HTTP"), Some(0.75)),
        Other::new(("HTTP/2, 8 connections", &http2), usual_of("HTTP/1.1"), Some(0.7)),
    ];
    for round in 0..bench.rounds() {
        for other in &mut others {
            other.measure(bench, round % 2 == 0)?;
        }
    }
    let rows = others.map(Other::row);
    bench.faults.begin();
    rows.into_iter().for_each(|row| bench.add(row));
    Ok(())
}

/// Through a queue in tens, over as many connections as target 1 has.
fn pc(bench: &mut Bench, server: &Server, endpoint: Endpoint) -> Result<Measured> {
    let report = bench.measure(server, batches(bench.scenario(Mode::Pc, endpoint, 64), 10))?;
    Ok(Measured {
        rate: report.rate(),
        cpu_us: report.server_cpu_us_per_message(),
        generator: report.own_cores(),
    })
}

/// What a run came to.
pub(crate) struct Measured {
    /// Messages a second.
    pub(crate) rate: f64,
    pub(crate) cpu_us: Option<f64>,
    /// How much of a core the client took.
    pub(crate) generator: f64,
}

type Measure<'a> = &'a dyn Fn(&mut Bench) -> Result<Measured>;
type Named<'a> = (&'static str, Measure<'a>);

/// Something else that a client may speak, and what it is held against.
struct Other<'a> {
    own: Named<'a>,
    usual: Named<'a>,
    /// Share of the rate it is held against that it has to reach.
    least: Option<f64>,
    rates: Vec<f64>,
    cpus: Vec<f64>,
    generators: Vec<f64>,
    shares: Vec<f64>,
    faults: Vec<String>,
}

impl<'a> Other<'a> {
    fn new(own: Named<'a>, usual: Named<'a>, least: Option<f64>) -> Other<'a> {
        let (rates, cpus, generators, shares, faults) = Default::default();
        Other { own, usual, least, rates, cpus, generators, shares, faults }
    }

    fn measure(&mut self, bench: &mut Bench, is_first: bool) -> Result<()> {
        let ((_, own), (_, usual)) = (self.own, self.usual);
        let (own, usual) = if is_first {
            let own = own(bench)?;
            (own, usual(bench)?)
        } else {
            let usual = usual(bench)?;
            (own(bench)?, usual)
        };
        self.rates.push(own.rate);
        self.cpus.extend(own.cpu_us);
        self.generators.push(own.generator);
        self.shares.push(own.rate / usual.rate.max(1.0));
        self.faults.extend(bench.faults.take());
        Ok(())
    }

    fn row(self) -> Row {
        let Other { own: (what, _), usual: (against, _), least, .. } = self;
        let share = median(self.shares);
        let row = Row {
            target: "6",
            what: format!("{what}, through in tens"),
            measured: format!("{}/s, {share:.2} x {against}", thousands(median(self.rates))),
            cpu_us: Some(median(self.cpus)),
            generator: Some(median(self.generators)),
            goal: least.map(|least| format!("≥ {least} x {against}")).unwrap_or_default(),
            is_met: least.map(|least| share >= least),
            ..Row::default()
        };
        row.failed(self.faults)
    }
}
