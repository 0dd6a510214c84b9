"""Cases of phase start: precedence, what is ignored, tenants, scopes. Written by hand, expected values too."""

from records import (
    ALL, both, BY_COHORT, BY_SESSION, case, cohort, ctx, DEFAULT, DEGRADED, DENIED, deny, EARLY,
    FIXED, force, FORCED, GLOBAL, LATE, MINE, MINIMAL, NOW, OMIT, one, operator, scoped, session,
    SHADOW, shadow_block, shadowed, trial, TRIED,
)


def cases_of_the_default():
    case("no_record_gives_the_global_schema", [], ctx(), DEFAULT)
    case("the_global_schema_has_the_graph_version_of_the_context", [], ctx(graph_version="v2"),
         ("refund_graph:v2", "primary", "default"))
    case("start_does_not_look_at_current_schema_ref", [], ctx(current_schema_ref=DEGRADED),
         DEFAULT)
    # the record's run is another one: failed would not take it, resume would keep the current
    other_run = [session("ovr_s", run_id="run_1")]
    case("missing_phase_is_start", other_run, ctx(OMIT, current_schema_ref=MINIMAL),
         BY_SESSION, "ovr_s")
    case("null_phase_is_start", other_run, ctx(None, current_schema_ref=MINIMAL),
         BY_SESSION, "ovr_s")
    case("unknown_phase_is_start", other_run, ctx("paused", current_schema_ref=MINIMAL),
         BY_SESSION, "ovr_s")
    case("start_takes_a_session_record_of_any_run", other_run, ctx(), BY_SESSION, "ovr_s")
    case("start_gives_no_entry_point", [session("ovr_s")], ctx(), BY_SESSION, "ovr_s")
    case("the_attempt_of_the_record_is_carried", [session("ovr_s", attempt=2)], ctx(),
         BY_SESSION, "ovr_s", attempt=2)


def cases_of_the_precedence():
    both("deny_on_the_graph_beats_force_on_the_session",
         [deny("ovr_d", ALL), force("ovr_f", MINE, created_at=LATE)], ctx(), DENIED, "ovr_d",
         losers=["ovr_f"])
    both("deny_beats_force_on_the_same_scope",
         [deny("ovr_z", ALL), force("ovr_f", ALL, tenant="t-7", created_at=LATE)], ctx(),
         DENIED, "ovr_z", losers=["ovr_f"])
    both("deny_beats_session", [deny("ovr_z", ALL), session("ovr_s", created_at=LATE)], ctx(),
         DENIED, "ovr_z", losers=["ovr_s"])
    both("deny_beats_cohort",
         [deny("ovr_z", ALL), cohort("ovr_c", {"region": "eu-west"}, created_at=LATE)], ctx(),
         DENIED, "ovr_z", losers=["ovr_c"])
    both("deny_on_the_session_beats_deny_on_a_cohort",
         [deny("ovr_z", MINE, attempt=1),
          deny("ovr_d", {"kind": "cohort", "region": "eu-west"}, created_at=LATE)],
         ctx(), DENIED, "ovr_z", losers=["ovr_d"], attempt=1)
    both("force_on_the_graph_beats_session",
         [force("ovr_z", ALL), session("ovr_s", created_at=LATE)], ctx(), FORCED, "ovr_z",
         losers=["ovr_s"])
    both("force_beats_cohort_with_more_dimensions",
         [force("ovr_z", ALL), cohort("ovr_c", {"region": "eu-west", "app_version": "6.4.1"},
                                      created_at=LATE)],
         ctx(), FORCED, "ovr_z", losers=["ovr_c"])
    both("force_on_the_session_beats_force_on_a_cohort",
         [force("ovr_z", MINE),
          force("ovr_f", {"kind": "cohort", "region": "eu-west"}, schema_ref=DEGRADED,
                created_at=LATE)],
         ctx(), FORCED, "ovr_z", losers=["ovr_f"])
    both("force_with_more_dimensions_beats_force_with_fewer",
         [force("ovr_z", {"kind": "cohort", "region": "eu-west"}),
          force("ovr_f", ALL, schema_ref=DEGRADED, created_at=LATE)],
         ctx(), FORCED, "ovr_z", losers=["ovr_f"])
    both("session_beats_a_cohort_of_four_dimensions",
         [session("ovr_z"),
          cohort("ovr_c", {"tenant": "t-7", "region": "eu-west", "app_version": "6.4.1",
                           "graph_version": "v1"}, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_SESSION, "ovr_z", losers=["ovr_c"])
    both("session_beats_a_degraded_cohort_of_an_operator",
         [session("ovr_z"),
          operator("ovr_o", "degraded", ALL, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_SESSION, "ovr_z", losers=["ovr_o"])
    both("a_newer_degraded_record_of_an_operator_beats_the_automatic_one",
         [session("ovr_a"),
          operator("ovr_o", "degraded", MINE, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), (MINIMAL, "degraded", "session"), "ovr_o", losers=["ovr_a"])
    both("an_older_degraded_record_of_an_operator_loses_to_the_automatic_one",
         [session("ovr_z", created_at=LATE),
          operator("ovr_o", "degraded", MINE, schema_ref=MINIMAL)],
         ctx(), BY_SESSION, "ovr_z", losers=["ovr_o"])
    both("two_dimensions_beat_one",
         [cohort("ovr_z", {"app_version": "6.4.1", "region": "eu-west"}),
          cohort("ovr_c", {"region": "eu-west"}, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("two_low_dimensions_beat_the_tenant",
         [cohort("ovr_z", {"graph_version": "v1", "attributes.model": "m-1"}),
          cohort("ovr_c", {"tenant": "t-7"}, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("three_dimensions_beat_two",
         [cohort("ovr_z", {"app_version": "6.4.1", "graph_version": "v1",
                           "attributes.model": "m-1"}),
          cohort("ovr_c", {"tenant": "t-7", "region": "eu-west"}, schema_ref=MINIMAL,
                 created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("one_dimension_beats_the_graph_scope",
         [cohort("ovr_z", {"attributes.model": "m-1"}),
          scoped("ovr_c", ALL, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("the_tenant_of_the_record_is_not_a_dimension",
         [cohort("ovr_z", {"app_version": "6.4.1"}),
          scoped("ovr_c", ALL, tenant="t-7", schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    rich = ctx(attributes={"model": "m-1", "tier": "gold", "tenant": "t-7"})
    steps = [
        ("tenant", "t-7", "region", "eu-west"),
        ("region", "eu-west", "app_version", "6.4.1"),
        ("app_version", "6.4.1", "graph_version", "v1"),
        ("graph_version", "v1", "attributes.model", "m-1"),
        ("attributes.model", "m-1", "attributes.tier", "gold"),
        ("graph_version", "v1", "attributes.tenant", "t-7"),
        ("attributes.model", "m-1", "attributes.tenant", "t-7"),
    ]
    for high, high_value, low, low_value in steps:
        both(f"{high}_ranks_above_{low}".replace(".", "_"),
             [cohort("ovr_z", {high: high_value}),
              cohort("ovr_c", {low: low_value}, schema_ref=MINIMAL, created_at=LATE)],
             rich, BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("the_first_dimension_in_rank_decides_between_pairs",
         [cohort("ovr_z", {"graph_version": "v1", "tenant": "t-7"}),
          cohort("ovr_c", {"region": "eu-west", "app_version": "6.4.1"}, schema_ref=MINIMAL,
                 created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("the_second_dimension_decides_where_the_first_is_equal",
         [cohort("ovr_z", {"app_version": "6.4.1", "region": "eu-west"}),
          cohort("ovr_c", {"region": "eu-west", "graph_version": "v1"}, schema_ref=MINIMAL,
                 created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("the_third_dimension_decides_where_two_are_equal",
         [cohort("ovr_z", {"attributes.model": "m-1", "tenant": "t-7", "region": "eu-west"}),
          cohort("ovr_c", {"tenant": "t-7", "region": "eu-west", "attributes.tier": "gold"},
                 schema_ref=MINIMAL, created_at=LATE)],
         rich, BY_COHORT, "ovr_z", losers=["ovr_c"])


def cases_of_the_last_ties():
    eu = {"region": "eu-west"}

    def pair(first_id, first_at, second_id, second_at):
        return [cohort(first_id, eu, created_at=first_at),
                cohort(second_id, eu, tenant="t-7", schema_ref=MINIMAL, created_at=second_at)]

    minimal = (MINIMAL, "degraded", "cohort")
    both("the_newer_record_wins_over_the_smaller_id", pair("ovr_b", LATE, "ovr_a", EARLY), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("the_newer_record_wins_when_it_is_the_other_one", pair("ovr_a", EARLY, "ovr_b", LATE),
         ctx(), minimal, "ovr_b", losers=["ovr_a"])
    both("equal_created_at_the_smaller_id_wins", pair("ovr_a", LATE, "ovr_b", LATE), ctx(),
         BY_COHORT, "ovr_a", losers=["ovr_b"])
    both("equal_created_at_the_smaller_id_wins_when_it_is_the_other_one",
         pair("ovr_b", LATE, "ovr_a", LATE), ctx(), minimal, "ovr_a", losers=["ovr_b"])
    both("ids_are_compared_as_text_not_as_numbers", pair("ovr_9", LATE, "ovr_10", LATE), ctx(),
         minimal, "ovr_10", losers=["ovr_9"])
    both("ids_are_compared_with_capitals_first", pair("ovr_a", LATE, "ovr_B", LATE), ctx(),
         minimal, "ovr_B", losers=["ovr_a"])
    both("a_prefix_is_the_smaller_id", pair("ovr_a1", LATE, "ovr_a", LATE), ctx(),
         minimal, "ovr_a", losers=["ovr_a1"])
    both("created_at_east_of_utc_is_compared_as_an_instant",
         pair("ovr_b", "2026-11-30T06:00:00Z", "ovr_a", "2026-11-30T07:30:00+02:00"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("created_at_west_of_utc_is_compared_as_an_instant",
         pair("ovr_b", "2026-11-30T01:00:00-05:30", "ovr_a", "2026-11-30T06:00:00Z"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("created_at_equal_in_two_offsets_falls_to_the_id",
         pair("ovr_b", "2026-11-30T06:00:00Z", "ovr_a", "2026-11-30T08:00:00+02:00"), ctx(),
         minimal, "ovr_a", losers=["ovr_b"])
    both("created_at_across_midnight_is_compared_as_an_instant",
         pair("ovr_b", "2026-11-29T23:30:00-02:00", "ovr_a", "2026-11-30T01:00:00Z"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("a_fraction_is_newer_than_none",
         pair("ovr_b", "2026-11-30T06:00:00.000001Z", "ovr_a", "2026-11-30T06:00:00Z"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("fractions_are_compared_by_value_not_by_digits",
         pair("ovr_b", "2026-11-30T06:00:00.1Z", "ovr_a", "2026-11-30T06:00:00.09Z"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("fractions_of_different_length_may_be_equal",
         pair("ovr_b", "2026-11-30T06:00:00.5Z", "ovr_a", "2026-11-30T06:00:00.500000Z"), ctx(),
         minimal, "ovr_a", losers=["ovr_b"])
    both("nine_fraction_digits_may_equal_six",
         pair("ovr_b", "2026-11-30T06:00:00.123456000Z", "ovr_a", "2026-11-30T06:00:00.123456Z"),
         ctx(), minimal, "ovr_a", losers=["ovr_b"])
    both("one_microsecond_is_newer",
         pair("ovr_b", "2026-11-30T06:00:00.123457Z", "ovr_a", "2026-11-30T06:00:00.123456Z"),
         ctx(), BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("a_record_without_created_at_is_the_oldest", pair("ovr_b", EARLY, "ovr_a", OMIT), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("the_newer_deny_wins_among_denies",
         [deny("ovr_b", ALL, created_at=LATE), deny("ovr_a", ALL, tenant="t-7")], ctx(),
         DENIED, "ovr_b", losers=["ovr_a"])
    both("losers_stand_in_precedence_order",
         [scoped("ovr_1", ALL, created_at=LATE),
          cohort("ovr_2", {"app_version": "6.4.1"}, created_at=LATE),
          cohort("ovr_3", {"region": "eu-west"}),
          cohort("ovr_4", {"region": "eu-west", "app_version": "6.4.1"}),
          session("ovr_5"),
          force("ovr_6", {"kind": "cohort", "region": "eu-west"}),
          deny("ovr_7", ALL),
          cohort("ovr_8", {"region": "eu-west"}, tenant="t-7", created_at=LATE)],
         ctx(), DENIED, "ovr_7",
         losers=["ovr_6", "ovr_5", "ovr_4", "ovr_8", "ovr_3", "ovr_2", "ovr_1"])


def cases_of_ignored_records():
    def ignored(name, record, context=None, now=NOW):
        case(name, [record], context or ctx(), DEFAULT, now=now)

    eu = {"region": "eu-west"}
    ignored("a_record_of_another_graph_is_ignored", session("ovr_s", graph="order_graph"))
    ignored("a_record_without_graph_is_ignored", session("ovr_s", graph=OMIT))
    ignored("a_suspended_record_is_ignored", session("ovr_s", status="suspended"))
    ignored("a_pending_record_is_ignored", cohort("ovr_c", eu, status="pending"))
    ignored("an_unknown_status_is_ignored", cohort("ovr_c", eu, status="warming_up"))
    ignored("a_status_in_capitals_is_unknown", cohort("ovr_c", eu, status="ACTIVE"))
    ignored("a_record_without_status_is_ignored", cohort("ovr_c", eu, status=OMIT))
    ignored("an_unknown_mode_is_ignored", cohort("ovr_c", eu, mode="canary"))
    ignored("an_unknown_mode_of_an_operator_is_ignored",
            operator("ovr_o", "freeze", ALL, schema_ref=MINIMAL))
    ignored("a_record_without_mode_is_ignored", cohort("ovr_c", eu, mode=OMIT))
    ignored("an_unknown_kind_is_ignored", cohort("ovr_c", eu, kind="drain"))
    case("a_record_without_kind_replaces", [cohort("ovr_c", eu, kind=OMIT)], ctx(), BY_COHORT,
         "ovr_c")
    ignored("an_automatic_force_is_ignored", force("ovr_f", ALL, source="auto"))
    ignored("an_automatic_deny_is_ignored", deny("ovr_d", ALL, source="auto"))
    ignored("a_force_without_source_is_ignored", force("ovr_f", MINE, source=OMIT))
    case("an_automatic_deny_does_not_hide_a_cohort",
         [deny("ovr_d", ALL, source="auto"), cohort("ovr_c", eu)], ctx(), BY_COHORT, "ovr_c")
    case("an_automatic_force_does_not_hide_a_session",
         [force("ovr_f", ALL, source="auto"), session("ovr_s")], ctx(), BY_SESSION, "ovr_s")
    ignored("a_replacement_without_schema_ref_is_ignored", cohort("ovr_c", eu, schema_ref=OMIT))

    ignored("a_record_without_expires_at_is_ignored", session("ovr_s", expires_at=OMIT))
    ignored("a_record_with_null_expires_at_is_ignored", session("ovr_s", expires_at=None))
    ignored("an_expired_record_is_ignored",
            session("ovr_s", expires_at="2026-11-30T06:59:59Z"))
    ignored("a_record_that_expires_now_is_ignored", session("ovr_s", expires_at=NOW))
    ignored("a_record_that_expires_now_in_another_offset_is_ignored",
            session("ovr_s", expires_at="2026-11-30T12:30:00+05:30"))
    ignored("a_record_that_expires_now_with_fraction_digits_is_ignored",
            session("ovr_s", expires_at="2026-11-30T07:00:00.000000Z"))
    ignored("a_record_that_expired_one_microsecond_ago_is_ignored",
            session("ovr_s", expires_at=NOW), now="2026-11-30T07:00:00.000001Z")
    ignored("an_expired_record_with_a_later_local_time_is_ignored",
            session("ovr_s", expires_at="2026-11-30T08:00:00+02:00"))
    case("a_record_that_expires_in_one_microsecond_counts",
         [session("ovr_s", expires_at="2026-11-30T07:00:00.000001Z")], ctx(), BY_SESSION, "ovr_s")
    case("a_record_counts_one_microsecond_before_it_expires",
         [session("ovr_s", expires_at=NOW)], ctx(), BY_SESSION, "ovr_s",
         now="2026-11-30T06:59:59.999999Z")
    case("a_live_record_with_an_earlier_local_time_counts",
         [session("ovr_s", expires_at="2026-11-30T03:00:00-05:00")], ctx(), BY_SESSION, "ovr_s")
    case("now_may_have_an_offset", [session("ovr_s", expires_at="2026-11-30T07:00:00.5Z")], ctx(),
         BY_SESSION, "ovr_s", now="2026-11-30T09:00:00+02:00")
    ignored("an_expired_deny_is_ignored", deny("ovr_d", ALL, expires_at=NOW))
    case("an_expired_deny_does_not_hide_a_session",
         [deny("ovr_d", ALL, expires_at=NOW), session("ovr_s")], ctx(), BY_SESSION, "ovr_s")
    case("the_next_record_wins_and_ignored_ones_are_no_losers",
         [session("ovr_1", expires_at=NOW), session("ovr_2", tenant=None, status="suspended"),
          cohort("ovr_3", {"region": "eu-west", "tenant": "t-7"}, mode="canary"),
          cohort("ovr_4", eu), cohort("ovr_5", {"region": "us-east"}), scoped("ovr_6", ALL)],
         ctx(), BY_COHORT, "ovr_4", losers=["ovr_6"])
    case("a_created_at_after_now_is_no_reason_to_ignore",
         [session("ovr_s", created_at="2026-11-30T07:00:05Z")], ctx(), BY_SESSION, "ovr_s")


def cases_of_unequal_copies():
    eu = {"region": "eu-west"}

    def ignored(name, record):
        case(name, [record], one("sess-000001"), DEFAULT)

    ignored("a_trial_whose_default_differs_is_ignored",
            trial(100, default_schema_ref=MINIMAL))
    ignored("a_trial_without_default_is_ignored", trial(100, default_schema_ref=OMIT))
    ignored("a_trial_without_candidate_is_ignored", trial(100, candidate_schema_ref=OMIT))
    ignored("a_trial_without_candidate_and_primary_is_ignored",
            trial(0, candidate_schema_ref=OMIT, primary_schema_ref=OMIT))
    ignored("a_trial_with_null_candidate_is_ignored", trial(100, candidate_schema_ref=None))
    ignored("a_trial_whose_primary_differs_from_the_candidate_is_ignored",
            trial(100, candidate_schema_ref=FIXED))
    case("a_trial_without_primary_counts", [trial(100, primary_schema_ref=OMIT)],
         one("sess-000001"), TRIED, "iv-001")
    case("a_trial_with_null_primary_counts", [trial(100, primary_schema_ref=None)],
         one("sess-000001"), TRIED, "iv-001")
    case("an_unequal_trial_does_not_hide_the_graph_scope",
         [trial(100, default_schema_ref=MINIMAL), scoped("ovr_g", ALL)], one("sess-000001"),
         BY_COHORT, "ovr_g")
    case("outside_a_trial_the_trial_fields_are_not_compared",
         [cohort("ovr_c", eu, default_schema_ref=MINIMAL, candidate_schema_ref=FIXED)], ctx(),
         BY_COHORT, "ovr_c")
    case("outside_a_trial_the_trial_percentage_sends_nobody", [trial(100, mode="degraded")],
         one("sess-000001"), BY_COHORT, "iv-001")
    ignored("two_unequal_shadow_schemas_are_ignored",
            shadowed(100, shadow_schema_ref="shadow_refund_graph:v2"))
    ignored("two_unequal_shadow_schemas_are_ignored_while_the_shadow_is_pending",
            cohort("iv-001", eu, shadow=shadow_block(0, status="pending"),
                   shadow_schema_ref="shadow_refund_graph:v2"))
    ignored("a_trial_with_two_unequal_shadow_schemas_is_ignored",
            trial(100, shadow=shadow_block(100), shadow_schema_ref="shadow_refund_graph:v2"))
    case("two_equal_shadow_schemas_count", [shadowed(100, shadow_schema_ref=SHADOW)],
         one("sess-000001"), BY_COHORT, "iv-001", shadow=SHADOW)
    case("a_shadow_schema_without_its_block_runs_no_shadow",
         [cohort("ovr_c", eu, shadow_schema_ref=SHADOW)], ctx(), BY_COHORT, "ovr_c")


def cases_of_tenants():
    eu = {"region": "eu-west"}
    case("a_session_record_of_another_tenant_is_ignored", [session("ovr_s", tenant="t-8")], ctx(),
         DEFAULT)
    case("a_cohort_record_of_another_tenant_is_ignored", [cohort("ovr_c", eu, tenant="t-8")],
         ctx(), DEFAULT)
    case("a_deny_of_another_tenant_is_ignored", [deny("ovr_d", ALL, tenant="t-8")], ctx(),
         DEFAULT)
    case("a_force_of_another_tenant_is_ignored", [force("ovr_f", ALL, tenant="t-8")], ctx(),
         DEFAULT)
    case("a_session_record_with_null_tenant_matches_every_tenant",
         [session("ovr_s", tenant=None)], ctx(tenant="t-9"), BY_SESSION, "ovr_s")
    case("a_session_record_without_tenant_matches_every_tenant",
         [session("ovr_s", tenant=OMIT)], ctx(), BY_SESSION, "ovr_s")
    case("a_record_with_null_tenant_matches_a_context_without_tenant",
         [session("ovr_s", tenant=None)], ctx(tenant=OMIT), BY_SESSION, "ovr_s")
    case("a_record_with_a_tenant_does_not_match_a_context_without_tenant",
         [session("ovr_s")], ctx(tenant=OMIT), DEFAULT)
    case("a_record_with_a_tenant_does_not_match_a_null_tenant",
         [session("ovr_s")], ctx(tenant=None), DEFAULT)
    case("a_cohort_record_of_the_own_tenant_matches", [cohort("ovr_c", eu, tenant="t-7")], ctx(),
         BY_COHORT, "ovr_c")
    case("equal_session_ids_of_two_tenants_stay_apart",
         [session("ovr_a", created_at=LATE), session("ovr_b", tenant="t-8", schema_ref=MINIMAL)],
         ctx(tenant="t-8"), (MINIMAL, "degraded", "session"), "ovr_b")
    case("the_tenant_as_a_dimension_matches", [cohort("ovr_c", {"tenant": "t-7"})], ctx(),
         BY_COHORT, "ovr_c")
    case("the_tenant_as_a_dimension_must_be_equal", [cohort("ovr_c", {"tenant": "t-8"})], ctx(),
         DEFAULT)
    case("tenants_are_compared_with_case", [session("ovr_s", tenant="T-7")], ctx(), DEFAULT)


def cases_of_scopes():
    def sees(name, scope, context=None):
        case(name, [scoped("ovr_c", scope)], context or ctx(), BY_COHORT, "ovr_c")

    def misses(name, scope, context=None):
        case(name, [scoped("ovr_c", scope)], context or ctx(), DEFAULT)

    case("a_session_record_of_another_session_does_not_match",
         [session("ovr_s", scope={"kind": "session", "session_id": "sess_1235"})], ctx(), DEFAULT)
    case("a_session_scope_without_session_id_does_not_match",
         [session("ovr_s", scope={"kind": "session"})], ctx(), DEFAULT)
    case("a_session_scope_without_session_id_does_not_match_a_missing_session_id",
         [session("ovr_s", scope={"kind": "session"})], ctx(session_id=OMIT), DEFAULT)
    case("session_ids_are_compared_with_case",
         [session("ovr_s", scope={"kind": "session", "session_id": "SESS_1234"})], ctx(), DEFAULT)
    case("a_unicode_session_id_matches",
         [session("ovr_s", scope={"kind": "session", "session_id": "сессия-日本-\U0001f600"})],
         one("сессия-日本-\U0001f600"), BY_SESSION, "ovr_s")
    case("unicode_session_ids_are_not_normalised",
         [session("ovr_s", scope={"kind": "session", "session_id": "caf\u00e9"})],
         one("cafe\u0301"), DEFAULT)
    sees("the_graph_scope_matches_every_session", ALL)
    sees("the_graph_scope_matches_a_context_without_dimensions", ALL,
         ctx(tenant=OMIT, region=OMIT, app_version=OMIT, attributes=OMIT))
    sees("a_cohort_without_dimensions_is_the_graph_scope", {"kind": "cohort"})
    sees("one_equal_dimension_matches", {"kind": "cohort", "region": "eu-west"})
    sees("all_equal_dimensions_match",
         {"kind": "cohort", "tenant": "t-7", "region": "eu-west", "app_version": "6.4.1",
          "graph_version": "v1", "attributes.model": "m-1"})
    misses("one_unequal_dimension_of_two_does_not_match",
           {"kind": "cohort", "region": "eu-west", "app_version": "6.4.2"})
    misses("dimensions_are_compared_with_case", {"kind": "cohort", "region": "EU-west"})
    misses("dimensions_are_compared_whole_not_by_prefix",
           {"kind": "cohort", "app_version": "6.4"})
    misses("a_dimension_holds_no_pattern", {"kind": "cohort", "app_version": "6.*"})
    sees("a_scope_without_kind_is_a_cohort", {"app_version": "6.4.1", "region": "eu-west"})
    misses("a_scope_without_kind_must_match_too", {"app_version": "6.4.1", "region": "us-east"})
    both("a_scope_without_kind_counts_its_dimensions",
         [scoped("ovr_z", {"app_version": "6.4.1", "region": "eu-west"}),
          cohort("ovr_c", {"tenant": "t-7"}, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    misses("a_scope_of_unknown_kind_is_ignored", {"kind": "fleet"})
    misses("a_scope_of_unknown_kind_with_dimensions_is_ignored",
           {"kind": "ring", "region": "eu-west"})
    misses("an_unknown_dimension_is_ignored", {"kind": "cohort", "model": "m-1"})
    misses("an_unknown_dimension_beside_a_known_one_is_ignored",
           {"kind": "cohort", "region": "eu-west", "shard": ""})
    misses("a_null_scope_is_ignored", None)
    case("a_record_without_scope_is_ignored", [scoped("ovr_c", OMIT)], ctx(), DEFAULT)
    case("a_deny_of_unknown_scope_does_not_hide_a_cohort",
         [deny("ovr_d", {"kind": "fleet"}), scoped("ovr_c", ALL)], ctx(), BY_COHORT, "ovr_c")

    misses("a_dimension_missing_in_the_context_does_not_match",
           {"kind": "cohort", "region": "eu-west"}, ctx(region=OMIT))
    misses("a_dimension_null_in_the_context_does_not_match",
           {"kind": "cohort", "region": "eu-west"}, ctx(region=None))
    sees("a_missing_dimension_is_the_empty_value", {"kind": "cohort", "region": ""},
         ctx(region=OMIT))
    sees("a_null_dimension_is_the_empty_value", {"kind": "cohort", "region": ""},
         ctx(region=None))
    sees("an_empty_dimension_matches_the_empty_value", {"kind": "cohort", "region": ""},
         ctx(region=""))
    misses("the_empty_value_is_not_a_wildcard", {"kind": "cohort", "region": ""})
    sees("a_missing_tenant_is_the_empty_value", {"kind": "cohort", "tenant": ""},
         ctx(tenant=OMIT))

    sees("an_attribute_matches", {"kind": "cohort", "attributes.model": "m-1"})
    misses("an_unequal_attribute_does_not_match", {"kind": "cohort", "attributes.model": "m-2"})
    misses("an_attribute_missing_in_the_context_does_not_match",
           {"kind": "cohort", "attributes.tool": "search"})
    misses("an_attribute_does_not_match_a_context_without_attributes",
           {"kind": "cohort", "attributes.model": "m-1"}, ctx(attributes=OMIT))
    sees("a_missing_attribute_is_the_empty_value", {"kind": "cohort", "attributes.tool": ""})
    sees("a_missing_attribute_is_the_empty_value_without_attributes",
         {"kind": "cohort", "attributes.tool": ""}, ctx(attributes=OMIT))
    sees("an_attribute_name_may_hold_a_dot", {"kind": "cohort", "attributes.model.name": "m-1"},
         ctx(attributes={"model.name": "m-1"}))
    sees("a_whole_number_compares_by_its_json_text", {"kind": "cohort", "attributes.shard": "7"},
         ctx(attributes={"shard": 7}))
    sees("a_fraction_compares_by_its_json_text",
         {"kind": "cohort", "attributes.temperature": "0.7"},
         ctx(attributes={"temperature": 0.7}))
    sees("true_compares_by_its_json_text", {"kind": "cohort", "attributes.beta": "true"},
         ctx(attributes={"beta": True}))
    misses("false_is_not_true", {"kind": "cohort", "attributes.beta": "true"},
           ctx(attributes={"beta": False}))
    sees("a_list_compares_by_its_json_text", {"kind": "cohort", "attributes.tools": '["a","b"]'},
         ctx(attributes={"tools": ["a", "b"]}))
    misses("a_string_attribute_has_no_quotes", {"kind": "cohort", "attributes.model": '"m-1"'})
    misses("a_dimension_is_not_an_attribute", {"kind": "cohort", "attributes.region": "eu-west"})
    misses("an_attribute_is_not_a_dimension", {"kind": "cohort", "region": "ap-south"},
           ctx(attributes={"region": "ap-south"}))
    sees("a_unicode_dimension_matches", {"kind": "cohort", "region": "東京"}, ctx(region="東京"))
    sees("the_graph_version_as_a_dimension_matches", {"kind": "cohort", "graph_version": "v1"})
    case("a_cohort_of_the_old_version_leaves_the_new_one_alone",
         [cohort("ovr_c", {"graph_version": "v1"})], ctx(graph_version="v2"),
         ("refund_graph:v2", "primary", "default"))


def cases_of_operators():
    case("a_deny_gives_the_global_schema_of_the_context", [deny("ovr_d", ALL)],
         ctx(graph_version="v2"), ("refund_graph:v2", "primary", "deny"), "ovr_d")
    case("a_deny_does_not_use_its_schema_ref", [deny("ovr_d", ALL, schema_ref=MINIMAL)], ctx(),
         DENIED, "ovr_d")
    case("a_deny_on_another_session_does_nothing",
         [deny("ovr_d", {"kind": "session", "session_id": "sess_9"}), session("ovr_s")], ctx(),
         BY_SESSION, "ovr_s")
    case("a_deny_on_a_cohort_covers_its_sessions",
         [deny("ovr_d", {"kind": "cohort", "region": "eu-west"}), session("ovr_s")], ctx(),
         DENIED, "ovr_d", losers=["ovr_s"])
    case("a_force_to_the_global_schema_is_still_degraded",
         [force("ovr_f", ALL, schema_ref=GLOBAL)], ctx(), (GLOBAL, "degraded", "force"), "ovr_f")
    case("a_force_runs_no_shadow", [force("iv-001", ALL, shadow=shadow_block(100))],
         one("sess-000001"), FORCED, "iv-001")
    case("a_deny_runs_no_shadow", [deny("iv-001", ALL, shadow=shadow_block(100))],
         one("sess-000001"), DENIED, "iv-001")
