//! The universal scalability law, fitted to throughput by number of clients.
//!
//! ```text
//!                     λ n
//! T(n) = ───────────────────────────
//!         1 + σ (n − 1) + κ n (n − 1)
//! ```
//! λ is what one client gets, σ the share that is serial, κ the cost of agreeing. n / T(n) is
//! linear in 1/λ, σ/λ and κ/λ, so least squares finds them at once.

/// The three coefficients, none of them negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Law {
    pub(crate) lambda: f64,
    pub(crate) sigma: f64,
    pub(crate) kappa: f64,
}

impl Law {
    /// Throughput with `clients`.
    pub(crate) fn at(&self, clients: f64) -> f64 {
        let slowed = 1.0 + self.sigma * (clients - 1.0) + self.kappa * clients * (clients - 1.0);
        self.lambda * clients / slowed
    }

    /// The number of clients beyond which throughput falls; `None` if it never does.
    pub(crate) fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }
}

/// Fits the law to points of (clients, throughput). Needs three different numbers of clients.
pub(crate) fn fit(points: &[(f64, f64)]) -> Option<Law> {
    let points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(clients, rate)| *clients > 0.0 && *rate > 0.0).collect();
    let mut different: Vec<f64> = points.iter().map(|(clients, _)| *clients).collect();
    different.sort_by(f64::total_cmp);
    different.dedup();
    if different.len() < 3 {
        return None;
    }
    // A coefficient that comes out negative is left out, and the others are fitted anew.
    let choices: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];
    let candidates = choices.iter().filter_map(|chosen| solve(&points, chosen));
    candidates
        .filter(|[one, serial, agreeing]| *one > 0.0 && *serial >= 0.0 && *agreeing >= 0.0)
        .map(|[one, serial, agreeing]| Law {
            lambda: 1.0 / one,
            sigma: serial / one,
            kappa: agreeing / one,
        })
        .min_by(|a, b| error(a, &points).total_cmp(&error(b, &points)))
}

/// The sum of squared relative errors.
fn error(law: &Law, points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(clients, rate)| (law.at(*clients) / rate - 1.0).powi(2)).sum()
}

/// Weighted least squares over the chosen terms of `[1, n − 1, n (n − 1)]`; others are zero.
fn solve(points: &[(f64, f64)], chosen: &[usize]) -> Option<[f64; 3]> {
    let size = chosen.len();
    // The normal equations, the right side in the last column.
    let mut rows = vec![vec![0.0; size + 1]; size];
    for (clients, rate) in points {
        let all = [1.0, clients - 1.0, clients * (clients - 1.0)];
        // Divided by n / T(n): relative errors count alike at every number of clients.
        let terms: Vec<f64> = chosen.iter().map(|term| all[*term] * rate / clients).collect();
        for (row, own) in rows.iter_mut().zip(&terms) {
            for (cell, other) in row.iter_mut().zip(&terms) {
                *cell += own * other;
            }
            row[size] += own;
        }
    }
    let solution = eliminate(rows)?;
    let mut all = [0.0; 3];
    chosen.iter().zip(solution).for_each(|(term, value)| all[*term] = value);
    Some(all)
}

/// Gauss' elimination with pivots; `None` if the equations are not independent.
fn eliminate(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = rows.len();
    for column in 0..size {
        let largest =
            (column..size).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()));
        rows.swap(column, largest?);
        let pivot = rows[column].clone();
        if pivot[column].abs() < f64::EPSILON * pivot[size].abs().max(1e-30) {
            return None;
        }
        let others = rows.iter_mut().enumerate().filter(|(index, _)| *index != column);
        for (_, row) in others {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(&pivot).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    Some(rows.iter().enumerate().map(|(index, row)| row[size] / row[index]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: &Law) -> Vec<(f64, f64)> {
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|clients| (clients, law.at(clients))).to_vec()
    }

    #[test]
    fn coefficients_come_back_from_their_own_curve() {
        let law = Law { lambda: 1000.0, sigma: 0.05, kappa: 0.001 };

        let found = fit(&points(&law)).unwrap();

        assert!((found.lambda - 1000.0).abs() < 0.01, "{found:?}");
        assert!((found.sigma - 0.05).abs() < 1e-6, "{found:?}");
        assert!((found.kappa - 0.001).abs() < 1e-7, "{found:?}");
        assert!((found.peak().unwrap() - 30.8).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn linear_growth_has_no_peak() {
        let found = fit(&[(1.0, 50.0), (2.0, 100.0), (4.0, 200.0), (8.0, 400.0)]).unwrap();

        assert!(found.sigma < 1e-9 && found.peak().is_none_or(|peak| peak > 1e4), "{found:?}");
    }

    #[test]
    fn better_than_linear_growth_gives_no_negative_coefficient() {
        let found = fit(&[(1.0, 50.0), (2.0, 120.0), (4.0, 260.0), (8.0, 500.0)]).unwrap();

        assert!(found.sigma >= 0.0 && found.kappa >= 0.0 && found.lambda > 0.0, "{found:?}");
    }

    #[test]
    fn two_points_are_too_few() {
        assert_eq!(fit(&[(1.0, 50.0), (2.0, 100.0), (2.0, 90.0)]), None);
        assert_eq!(fit(&[]), None);
    }
}
